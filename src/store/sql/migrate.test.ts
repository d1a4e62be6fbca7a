import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../../test/setup/database.ts';
import { runStarted, sampleRun } from '../../testing/sample-events.ts';
import { PostgresStore } from '../postgres-store.ts';
import { verifyChain } from '../verify-chain.ts';
import { checkSchema, migrate, readMigrations } from './migrate.ts';
import { Postgres } from './postgres.ts';

const made: TestDatabase[] = [];
const pools: Postgres[] = [];
let admin: pg.Client;
const ownerRole = `rl_owner_${randomUUID().slice(0, 8)}`;
const userRole = `rl_user_${randomUUID().slice(0, 8)}`;

beforeAll(async () => {
  const database = await createTestDatabase();
  made.push(database);
  admin = new pg.Client({ connectionString: database.url });
  await admin.connect();
});
afterEach(async () => {
  for (const pool of pools.splice(0)) await pool.close();
});
afterAll(async () => {
  await admin.end();
  for (const database of made) await database.drop();
});

async function emptyDatabase(): Promise<TestDatabase> {
  const database = await createTestDatabase({ empty: true });
  made.push(database);
  return database;
}

function connect(url: string): Postgres {
  const postgres = new Postgres({ url });
  pools.push(postgres);
  return postgres;
}

const all = readMigrations();
const names = all.map((migration) => migration.name);
const rowsOf = (postgres: Postgres) =>
  postgres.query<{ name: string }>({ text: 'select name from runledger.migrations order by version' });

test('migrations are numbered without gaps', () => {
  expect(all.map((migration) => migration.version)).toEqual(all.map((_, i) => i + 1));
});

test('processes that migrate at once apply each migration once, and all of them can work afterwards', async () => {
  const { url } = await emptyDatabase();
  const lines: string[] = [];
  const open = () => PostgresStore.open({ url, migrate: true, onWarning: (line) => lines.push(line) });
  const stores = await Promise.all(Array.from({ length: 6 }, open));
  expect(lines.sort()).toEqual(names.map((name) => `applied migration ${name}`).sort());
  expect((await rowsOf(stores[0]!.postgres)).map((row) => row.name)).toEqual(names);
  const made = await Promise.all(stores.map((store) => store.createRun(sampleRun(randomUUID()))));
  expect(made.every((run) => run.created)).toBe(true);
  for (const store of stores) await store.close();
});

test('a process waits for another one that is migrating', async () => {
  const { url } = await emptyDatabase();
  const postgres = connect(url);
  const other = new pg.Client({ connectionString: url });
  await other.connect();
  await other.query('begin');
  await other.query('select pg_advisory_xact_lock(7262018)');
  const waiting = migrate(postgres);
  const waiters = `select count(*)::int as n from pg_locks where locktype = 'advisory' and not granted`;
  await expect.poll(async () => (await other.query(waiters)).rows[0].n).toBeGreaterThan(0);
  await other.query('rollback');
  expect(await waiting).toEqual(names);
  await other.end();
});

test('migrating again does nothing, and keeps what is stored', async () => {
  const { url } = await emptyDatabase();
  const store = await PostgresStore.open({ url, migrate: true });
  const run = sampleRun(randomUUID());
  await store.createRun(run);
  await store.append([runStarted(run)], { as: 'control' });
  expect(await migrate(store.postgres)).toEqual([]);
  expect(verifyChain(await store.readEvents(run.runId))).toMatchObject({ ok: true, records: 2 });
  await store.close();
});

test('a database without the schema, or with an older one, is refused unless it may be migrated', async () => {
  const { url } = await emptyDatabase();
  await expect(PostgresStore.open({ url })).rejects.toMatchObject({ code: 'STORE_SCHEMA_TOO_OLD' });
  const postgres = connect(url);
  await migrate(postgres);
  await postgres.query({ text: `delete from runledger.migrations where version = ${all.length}` });
  await expect(checkSchema(postgres)).rejects.toMatchObject({
    code: 'STORE_SCHEMA_TOO_OLD',
    details: { missing: names.at(-1) },
  });
});

test('a migration that was changed after it had been applied is refused', async () => {
  const { url } = await emptyDatabase();
  const postgres = connect(url);
  await migrate(postgres);
  await postgres.query({ text: `update runledger.migrations set checksum = repeat('0', 64) where version = 2` });
  const refused = {
    code: 'MIGRATION_FAILED',
    details: { migration: names[1], next: expect.stringContaining('another database') },
  };
  await expect(checkSchema(postgres)).rejects.toMatchObject(refused);
  await expect(migrate(postgres)).rejects.toMatchObject(refused);
  await expect(PostgresStore.open({ url })).rejects.toMatchObject(refused);
});

test('a schema of a newer version is accepted, unless the newer version says that it breaks older ones', async () => {
  const { url } = await emptyDatabase();
  const postgres = connect(url);
  await migrate(postgres);
  const add = (version: number, breaking: boolean) =>
    postgres.query({
      text: `insert into runledger.migrations (version, name, breaking, checksum) values (${version}, '${version}_later', ${breaking}, 'x')`,
    });
  await add(9001, false);
  await checkSchema(postgres);
  expect(await migrate(postgres)).toEqual([]);
  const store = await PostgresStore.open({ url });
  expect((await store.createRun(sampleRun(randomUUID()))).created).toBe(true);
  await store.close();
  await add(9002, true);
  const refused = { code: 'STORE_SCHEMA_TOO_NEW', details: { migration: '9002_later' } };
  await expect(checkSchema(postgres)).rejects.toMatchObject(refused);
  await expect(migrate(postgres)).rejects.toMatchObject(refused);
  await expect(PostgresStore.open({ url, migrate: true })).rejects.toMatchObject(refused);
});

test('a migration that fails leaves nothing of itself behind and can be tried again', async () => {
  const { url } = await emptyDatabase();
  const postgres = connect(url);
  await postgres.query({ text: 'create schema runledger' });
  await postgres.query({ text: 'create table runledger.cursors (mine int)' });
  await expect(migrate(postgres)).rejects.toMatchObject({
    code: 'MIGRATION_FAILED',
    message: expect.stringMatching(new RegExp(`^Migration ${names[2]} failed, .*: relation "cursors" already exists`)),
    details: { next: expect.stringContaining('runledger migrate --print') },
  });
  expect((await rowsOf(postgres)).map((row) => row.name)).toEqual(names.slice(0, 2));
  const half = await postgres.query({ text: `select to_regclass('runledger.snapshots') as name` });
  expect(half).toEqual([{ name: null }]);
  await postgres.query({ text: 'drop table runledger.cursors' });
  expect(await migrate(postgres)).toEqual(names.slice(2));
});

test('an ordinary role can own the schema, and another one can use it', async () => {
  const { url } = await emptyDatabase();
  const as = (role: string) => {
    const own = new URL(url);
    [own.username, own.password] = [role, 'x'];
    return own.href;
  };
  const name = new URL(url).pathname.slice(1);
  await admin.query(`create role ${ownerRole} login password 'x'; create role ${userRole} login password 'x'`);
  await admin.query(`grant create on database ${name} to ${ownerRole}`);
  try {
    const owner = await PostgresStore.open({ url: as(ownerRole), migrate: true });
    await owner.postgres.query({ text: `select runledger.grant_use('${userRole}')` });
    await owner.close();
    const store = await PostgresStore.open({ url: as(userRole) });
    const run = sampleRun(randomUUID());
    await store.createRun(run);
    expect(await store.append([runStarted(run)], { as: 'control' })).toMatchObject({ ok: true });
    await expect(migrate(store.postgres)).rejects.toMatchObject({
      code: 'MIGRATION_FAILED',
      message: expect.stringMatching(/^The schema runledger cannot be made: permission denied .*\(42501\)\.$/),
      details: { next: expect.stringContaining('a role that may create schemas') },
    });
    await store.close();
  } finally {
    await made.pop()?.drop();
    await admin.query(`drop role ${ownerRole}; drop role ${userRole}`);
  }
});

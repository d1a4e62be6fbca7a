import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../test/setup/database.ts';
import type { LedgerRecord, RunEventWrite } from '../contracts/envelope.ts';
import { runStarted, sampleEvent, sampleRun } from '../testing/sample-events.ts';
import { cleanServer, temporaryFolder } from './embedded/embedded.fixture.ts';
import { type EmbeddedServer, openEmbedded } from './embedded/open-embedded.ts';
import { PostgresStore } from './postgres-store.ts';
import type { StreamCursor } from './sql/read-stream.ts';
import type { NewRun } from './store.ts';
import { verifyChain } from './verify-chain.ts';

let database: TestDatabase;
let before: PostgresStore;
beforeAll(async () => {
  database = await createTestDatabase();
  before = await PostgresStore.open({ url: database.url });
});
afterAll(async () => {
  await before.close();
  await database.drop();
});

const settings = { fsync: 'off', wal_level: 'replica', restore_command: 'false' };
let counter = 0;
const task = (run: NewRun): RunEventWrite =>
  sampleEvent(run, { eventType: 'TaskDone', stepId: 'a', entity: `a/get:${++counter}`, payload: { attempts: 1 } });

async function startedRun(store: PostgresStore): Promise<NewRun> {
  const run = sampleRun(randomUUID());
  await store.createRun(run);
  await store.append([runStarted(run)], { as: 'control' });
  return run;
}

/** Reads on until nothing more comes and this many have been seen, as a delivery does. */
async function readOn(store: PostgresStore, after: StreamCursor | undefined, count: number) {
  const records: LedgerRecord[] = [];
  let cursor = after;
  await expect
    .poll(
      async () => {
        for (const event of await store.readStream(cursor, 7)) {
          records.push(event.record);
          cursor = event.cursor;
        }
        return records.length;
      },
      { timeout: 20_000, interval: 1 },
    )
    .toBe(count);
  return { records, cursor };
}

/** Copies every row of every table, as a dump and restore would, into a schema that was just migrated. */
async function copyRows(from: pg.Client, to: pg.Client): Promise<void> {
  const tables = await from.query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = 'runledger'::regnamespace and relkind in ('r', 'p') and not relispartition`,
  );
  // Tables come in any order, as with a restore that adds the constraints at the end.
  await to.query(
    `set session_replication_role = replica; delete from runledger.stream_state; delete from runledger.migrations`,
  );
  for (const { name } of tables.rows) {
    const { rows } = await from.query<{ all: string }>(
      `select coalesce(json_agg(t), '[]')::text as all from runledger.${name} t`,
    );
    await to.query(
      `insert into runledger.${name} overriding system value select * from json_populate_recordset(null::runledger.${name}, $1::json)`,
      [rows[0]!.all],
    );
  }
  for (const [table, column] of [
    ['runs', 'run_key'],
    ['alerts', 'alert_key'],
  ]) {
    await to.query(
      `select setval(pg_get_serial_sequence('runledger.${table}', '${column}'), coalesce((select max(${column}) from runledger.${table}), 0) + 1, false)`,
    );
  }
}

async function oneRow<T extends object>(store: PostgresStore, text: string): Promise<T> {
  return (await store.postgres.query<T>({ name: text.slice(0, 60), text }))[0] as T;
}

/** A cluster of its own, with the migrated schema, whose transaction ids are far below those of the first one. */
async function youngCluster(): Promise<{ server: EmbeddedServer; client: pg.Client }> {
  const folder = await temporaryFolder();
  cleanServer(join(folder, 'pg'));
  const server = await openEmbedded({ folder, settings });
  const store = await PostgresStore.open({ ...server.config, migrate: true });
  await store.close();
  const client = new pg.Client(server.config);
  await client.connect();
  return { server, client };
}

test('ES-4a after a dump and restore into another cluster a cursor loses nothing, doubles nothing and sees what is new', async () => {
  const source = new pg.Client({ connectionString: database.url });
  await source.connect();
  // Every block with a handler takes a transaction id of its own.
  await source.query(`do $$ begin
    create temporary table burnt (n int);
    for i in 1 .. 5000 loop begin insert into burnt values (i); exception when others then raise; end; end loop; end $$`);
  const runs = [await startedRun(before), await startedRun(before), await startedRun(before)];
  for (const run of runs) await before.append([task(run), task(run), task(run)], { as: 'worker' });
  await before.erase(runs[0]!.runId, { runSeqs: [3], reason: 'asked for', emittedAt: '2026-03-01T00:00:00Z' });
  await before.raiseAlert({ code: 'X', severity: 'P3', message: 'm', dedupeKey: 'd' });
  const early = await readOn(before, undefined, 16);
  const half = (await before.readStream(undefined, 8)).at(-1)!.cursor;
  const oldHead = await oneRow<{ xid: string }>(
    before,
    `select max(stream_xid)::text as xid from runledger.run_events`,
  );

  const { server, client } = await youngCluster();
  await copyRows(source, client);
  const young = (await client.query<{ xid: string }>('select pg_current_xact_id()::text as xid')).rows[0]!.xid;
  expect(Number(young)).toBeLessThan(Number(oldHead.xid));
  await client.end();
  await source.end();

  // Several processes notice at once; the era is raised once.
  const opened = await Promise.all([1, 2, 3, 4].map(() => PostgresStore.open(server.config)));
  const [store, ...others] = opened as [PostgresStore, ...PostgresStore[]];
  await Promise.all(opened.map((each) => each.readStream(undefined, 1)));
  const state = `select era, history = runledger.xid_history() as ours from runledger.stream_state`;
  expect(await oneRow(store, state)).toEqual({ era: 2, ours: true });

  // Old runs go on, new ones begin, through all processes at once.
  const fresh = await startedRun(store);
  const writes = [...runs, fresh].flatMap((run) => opened.map((each) => each.append([task(run)], { as: 'worker' })));
  for (const result of await Promise.all(writes)) expect(result).toMatchObject({ ok: true });

  const count = 16 + 2 + 16;
  const whole = await readOn(store, undefined, count);
  const rest = await readOn(others[0]!, half, count - 8);
  const late = await readOn(others[1]!, early.cursor, count - 16);
  expect(whole.records.slice(0, 16)).toEqual(early.records);
  expect(rest.records).toEqual(whole.records.slice(8));
  expect(late.records).toEqual(whole.records.slice(16));
  expect(late.cursor).toMatchObject({ era: 2 });
  for (const run of [...runs, fresh]) {
    const streamed = whole.records.filter((record) => record.runId === run.runId);
    expect(streamed).toEqual(await store.readEvents(run.runId));
    expect(streamed.map((record) => record.runSeq)).toEqual(streamed.map((_, i) => i + 1));
    expect(verifyChain(streamed)).toMatchObject({ ok: true });
  }
  // Numbers of the old cluster do not live on in the new era.
  const xids = await oneRow<{ high: string; runs: string; now: string }>(
    store,
    `select (select max(stream_xid)::text from runledger.run_events where era = 2) as high,
            (select max(stream_xid)::text from runledger.runs where stream_era = 2) as runs, pg_current_xact_id()::text as now`,
  );
  expect(Number(xids.high)).toBeLessThan(Number(xids.now));
  expect(Number(xids.runs)).toBeLessThan(Number(xids.now));
  expect(await store.listAlerts({})).toHaveLength(1);
  expect((await store.createRun(runs[1]!)).created).toBe(false);
  for (const each of opened) await each.close();
  await server.close();
});

test('ES-4a after a recovery to an earlier point a cursor that is ahead of it still sees what is new', async () => {
  const folder = await temporaryFolder();
  const dataDir = join(folder, 'pg');
  cleanServer(dataDir);
  const copy = join(folder, 'copy');
  const open = async () => {
    const server = await openEmbedded({ folder, settings });
    return { server, store: await PostgresStore.open({ ...server.config, migrate: true }) };
  };
  const first = await open();
  const run = await startedRun(first.store);
  await first.store.close();
  await first.server.close();
  execFileSync('cp', ['-a', dataDir, copy]);
  const second = await open();
  for (let i = 0; i < 40; i++) await second.store.append([task(run)], { as: 'worker' });
  const { cursor } = await readOn(second.store, undefined, 42);
  await second.store.close();
  await second.server.close();
  // What was written since the copy is lost, and transaction ids are handed out again.
  execFileSync('rm', ['-rf', dataDir]);
  execFileSync('mv', [copy, dataDir]);
  execFileSync('touch', [join(dataDir, 'recovery.signal')]);
  execFileSync('chown', ['--reference', dataDir, join(dataDir, 'recovery.signal')]);
  const third = await open();
  await third.store.append([task(run)], { as: 'worker' });
  const fresh = await startedRun(third.store);
  const { records } = await readOn(third.store, cursor, 3);
  expect(records.map((record) => [record.runId, record.runSeq])).toEqual([
    [run.runId, 3],
    [fresh.runId, 1],
    [fresh.runId, 2],
  ]);
  expect(await oneRow(third.store, 'select era from runledger.stream_state')).toEqual({ era: 2 });
  await third.store.close();
  await third.server.close();
});

test('a store that stays on its own cluster never changes the era', async () => {
  const again = await PostgresStore.open({ url: database.url });
  await again.readStream(undefined, 1);
  expect(await oneRow(again, 'select era from runledger.stream_state')).toEqual({ era: 1 });
  await again.close();
});

import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../test/setup/database.ts';
import { runStarted, sampleEvent, sampleRun } from '../testing/sample-events.ts';
import { PostgresStore } from './postgres-store.ts';
import { projectionStore } from './projection-store.ts';
import type { NewRun } from './store.ts';
import { verifyChain } from './verify-chain.ts';

/** Roles belong to the whole server, so their names must be this file's own. */
const suffix = randomUUID().slice(0, 8);
const POWERFUL = `rl_powerful_${suffix}`;
const APPLICATION = `rl_application_${suffix}`;

let database: TestDatabase;
let owner: PostgresStore;
let ownerClient: pg.Client;
let run: NewRun;

beforeAll(async () => {
  database = await createTestDatabase();
  owner = await PostgresStore.open({ url: database.url });
  ownerClient = await connect(database.url);
  run = await runWithTasks(owner);
  for (const role of [POWERFUL, APPLICATION]) await ownerClient.query(`create role ${role} login password 'x'`);
  await ownerClient.query(`
    grant all on schema runledger to ${POWERFUL};
    grant all on all tables in schema runledger to ${POWERFUL};
    grant all on all functions in schema runledger to ${POWERFUL};
    select runledger.grant_use('${APPLICATION}')`);
});
afterAll(async () => {
  for (const role of [POWERFUL, APPLICATION]) await ownerClient.query(`drop owned by ${role}; drop role ${role}`);
  await ownerClient.end();
  await owner.close();
  await database.drop();
});

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return client;
}

async function runWithTasks(store: PostgresStore): Promise<NewRun> {
  const made = sampleRun(randomUUID());
  await store.createRun(made);
  await store.append([runStarted(made)], { as: 'control' });
  const task = (n: number) =>
    sampleEvent(made, { eventType: 'TaskDone', stepId: 'a', entity: `a/get:${n}`, payload: { attempts: n } });
  const result = await store.append([task(1), task(2), task(3)], { as: 'worker' });
  if (!result.ok) throw result.error;
  return made;
}

/** The statement in a transaction of its own, as that role. */
async function as(role: string | undefined, ...statements: string[]): Promise<string> {
  await ownerClient.query('begin');
  try {
    if (role) await ownerClient.query(`set local role ${role}`);
    for (const statement of statements) await ownerClient.query(statement);
    return 'done';
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  } finally {
    await ownerClient.query('rollback');
  }
}

const RL_REFUSED = 'RL001';
const FORBIDDEN = '42501';

describe.each([
  ['the owner', undefined],
  ['a role with every privilege', POWERFUL],
])('for %s', (_name, role) => {
  test.each(['runledger.run_events', 'runledger.run_events_p0'])(
    'ES-1.2a %s refuses UPDATE, DELETE and TRUNCATE',
    async (table) => {
      const before = await owner.readEvents(run.runId);
      const statements = [
        `update ${table} set payload = '{}' where run_seq = 3`,
        `update ${table} set payload = payload`,
        `update ${table} set payload = null, salt = null where run_seq = 3`,
        `update ${table} set run_seq = run_seq + 100`,
        `update ${table} set run_key = run_key + 1`,
        `delete from ${table} where run_seq = 3`,
        `delete from ${table}`,
        `truncate ${table}`,
        `insert into ${table} select * from ${table} where run_seq = 3 on conflict (run_key, run_seq) do update set payload = 'x'`,
        `merge into ${table} t using (select 1) s on t.run_seq = 3 when matched then delete`,
      ];
      for (const statement of statements)
        expect([statement, await as(role, statement)]).toEqual([statement, RL_REFUSED]);
      expect(await owner.readEvents(run.runId)).toEqual(before);
    },
  );
});

test('ES-1.2a the setting that allows an erasure is of no use to anybody but the function that erases', async () => {
  const open = `select set_config('runledger.erasing', pg_current_xact_id()::text, true)`;
  const erase = 'update runledger.run_events set payload = null, salt = null where run_seq = 3';
  expect(await as(POWERFUL, open, erase)).toBe(RL_REFUSED);
  // Operators of one's own in front of the real ones do not help either.
  const own = [
    'create schema evil',
    `create function evil.yes(name, name) returns boolean language sql as 'select true'`,
    'create operator evil.= (leftarg = name, rightarg = name, function = evil.yes)',
    `grant usage on schema evil to ${POWERFUL}`,
    `set local role ${POWERFUL}`,
    'set local search_path = evil, pg_catalog',
  ];
  expect(await as(undefined, ...own, open, erase)).toBe(RL_REFUSED);
});

test('ES-1.2a the application’s role can neither change the log nor write to it but through the append function', async () => {
  const statements = [
    'update runledger.run_events set payload = null, salt = null',
    'delete from runledger.run_events',
    'truncate runledger.run_events',
    'insert into runledger.run_events select * from runledger.run_events',
    'insert into runledger.run_events_p0 select * from runledger.run_events',
    'update runledger.runs set last_seq = 0',
    'delete from runledger.runs',
    `insert into runledger.runs (run_id, tenant_id, project_id, environment_id, plan_id, plan_version) values ('x','x','x','x','x','x')`,
    'update runledger.stream_state set era = 99',
    'update runledger.migrations set checksum = version::text',
    'delete from runledger.alerts',
    'alter table runledger.run_events disable trigger all',
    'drop table runledger.run_events_p0',
    'create table runledger.mine (x int)',
    `select runledger.grant_use('${POWERFUL}')`,
    'select runledger.ensure_partition(900000)',
  ];
  for (const statement of statements) {
    expect([statement, await as(APPLICATION, statement)]).toEqual([statement, FORBIDDEN]);
  }
});

test('the application’s role can use the whole store', async () => {
  const url = new URL(database.url);
  [url.username, url.password] = [APPLICATION, 'x'];
  const store = await PostgresStore.open({ url: url.href });
  try {
    const mine = await runWithTasks(store);
    await store.linkProvider(mine.runId, { provider: 'temporal', workflowId: 'w', providerRunId: mine.runId });
    await store.raiseAlert({ code: 'INVALID_TRANSITION', severity: 'P2', message: 'm', dedupeKey: mine.runId });
    const snapshot = { lastEventSeq: 5, state: '{}', snapshot: {} as never };
    expect(await store.saveSnapshot(mine.runId, snapshot)).toBe(true);
    expect(await store.saveSnapshot(mine.runId, snapshot)).toBe(true);
    expect(await store.loadSnapshot(mine.runId)).toMatchObject({ lastEventSeq: 5 });
    await store.erase(mine.runId, { runSeqs: [3], reason: 'asked for', emittedAt: '2026-03-01T00:00:00Z' });
    const records = await store.readEvents(mine.runId);
    expect(verifyChain(records)).toMatchObject({ ok: true, records: 6, erased: [3] });
    expect(await store.readStream(undefined, 1)).toHaveLength(1);
    expect(await store.listAlerts({ code: 'INVALID_TRANSITION' })).toHaveLength(1);
    const projections = projectionStore(store.postgres);
    const { xmin } = await projections.streamSnapshot();
    await projections.horizonHolder(xmin);
    await projections.advanceCursor({ era: 1, xid: 1, runKey: 1, runSeq: 1 });
    await projections.advanceCursor({ era: 1, xid: 2, runKey: 1, runSeq: 1 });
    await projections.noteEpisode(mine.runId, 1000);
    await projections.noteEpisode(mine.runId, 1000);
    const key = (await store.findRun(mine.runId))?.runKey as number;
    expect(await projections.claim([key], async ({ stands }) => stands.map((stand) => stand.claimed))).toEqual([true]);
    // Keys beyond the partitions that exist: the function makes them, the role may not.
    await ownerClient.query(`select setval(pg_get_serial_sequence('runledger.runs', 'run_key'), 1234567)`);
    await runWithTasks(store);
    expect(
      (await ownerClient.query(`select to_regclass('runledger.run_events_p12') as name`)).rows[0].name,
    ).not.toBeNull();
  } finally {
    await store.close();
  }
});

test('a role without grants cannot even look', async () => {
  const stranger = `rl_stranger_${suffix}`;
  await ownerClient.query(`create role ${stranger}`);
  try {
    for (const statement of ['select * from runledger.runs', 'select runledger.open_session()']) {
      expect(await as(stranger, statement)).toBe(FORBIDDEN);
    }
    expect(
      await as(
        undefined,
        `grant usage on schema runledger to ${stranger}`,
        `set local role ${stranger}`,
        'select runledger.open_session()',
      ),
    ).toBe(FORBIDDEN);
  } finally {
    await ownerClient.query(`drop role ${stranger}`);
  }
});

import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../test/setup/database.ts';
import { runStarted, sampleEvent, sampleRun } from '../testing/sample-events.ts';
import { PostgresStore } from './postgres-store.ts';
import type { NewRun } from './store.ts';
import { verifyChain } from './verify-chain.ts';

let database: TestDatabase;
let stores: PostgresStore[];
let client: pg.Client;
beforeAll(async () => {
  database = await createTestDatabase();
  stores = await Promise.all([1, 2, 3].map(() => PostgresStore.open({ url: database.url })));
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  for (const store of stores) await store.close();
  await database.drop();
});

const nextKey = (key: number) =>
  client.query(`select setval(pg_get_serial_sequence('runledger.runs', 'run_key'), $1, false)`, [key]);

async function partitions(): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select relname as name from pg_class c join pg_inherits i on i.inhrelid = c.oid
      where i.inhparent = 'runledger.run_events'::regclass order by length(relname), relname`,
  );
  return rows.map((row) => row.name);
}

async function liveRun(store: PostgresStore): Promise<NewRun> {
  const run = sampleRun(randomUUID());
  expect(await store.createRun(run)).toEqual({ runId: run.runId, created: true });
  expect(await store.append([runStarted(run)], { as: 'control' })).toMatchObject({ ok: true });
  return run;
}

test('runs beyond the first range of keys get partitions, also when many begin at once on both sides of the border', async () => {
  expect(await partitions()).toEqual(['run_events_p0']);
  await liveRun(stores[0]!);
  expect(await partitions()).toEqual(['run_events_p0']);
  await nextKey(99_990);
  const runs = await Promise.all(Array.from({ length: 40 }, (_, i) => liveRun(stores[i % 3]!)));
  expect(await partitions()).toEqual(['run_events_p0', 'run_events_p1']);
  // One batch over both partitions.
  const event = (run: NewRun) => sampleEvent(run, { eventType: 'StepStarted', stepId: 'a' });
  const calls = runs.map((run) => ({ events: [event(run), event(run)], options: { as: 'worker' as const } }));
  for (const result of await stores[0]!.appendMany(calls)) expect(result).toMatchObject({ ok: true });
  for (const run of runs) {
    expect(verifyChain(await stores[1]!.readEvents(run.runId))).toMatchObject({ ok: true, records: 3 });
  }
  const { rows } = await client.query(
    `select tableoid::regclass::text as name, count(*)::int as n from runledger.run_events group by 1 order by 1`,
  );
  expect(rows.map((row) => row.name.replace('runledger.', ''))).toEqual(['run_events_p0', 'run_events_p1']);
});

test('the next partition is there before the first run that needs it', async () => {
  await nextKey(250_001);
  await liveRun(stores[0]!);
  expect(await partitions()).toEqual(['run_events_p0', 'run_events_p1', 'run_events_p2', 'run_events_p3']);
});

test('a far jump of the keys, met by many at once, makes exactly the partitions that are needed', async () => {
  await nextKey(1_249_990);
  await Promise.all(Array.from({ length: 30 }, (_, i) => liveRun(stores[i % 3]!)));
  expect((await partitions()).slice(4)).toEqual(['run_events_p12', 'run_events_p13']);
});

test('ES-1.2a a partition that was made later refuses changes as well', async () => {
  await nextKey(1_260_000);
  await liveRun(stores[0]!);
  for (const table of ['runledger.run_events', 'runledger.run_events_p12']) {
    for (const statement of [`update ${table} set path = 'x'`, `delete from ${table}`, `truncate ${table}`]) {
      await expect(client.query(statement)).rejects.toMatchObject({ code: 'RL001' });
    }
  }
});

test('a new partition neither waits for appends that are under way nor stops them', async () => {
  await nextKey(2_000_000);
  const run = await liveRun(stores[0]!);
  const other = new pg.Client({ connectionString: database.url });
  await other.connect();
  // Somebody writes and reads events in a transaction that stays open.
  await other.query('begin');
  await other.query('lock table runledger.run_events in row exclusive mode');
  await nextKey(2_300_000);
  await liveRun(stores[1]!);
  expect(
    await stores[0]!.append([sampleEvent(run, { eventType: 'StepStarted', stepId: 'a' })], { as: 'worker' }),
  ).toMatchObject({ ok: true });
  await other.query('rollback');
  await other.end();
  const all = await partitions();
  for (const name of ['run_events_p20', 'run_events_p23']) expect(all).toContain(name);
});

import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../test/setup/database.ts';
import type { RunEventWrite } from '../contracts/envelope.ts';
import { runStarted, sampleEvent, sampleRun } from '../testing/sample-events.ts';
import { PostgresStore } from './postgres-store.ts';
import { prepareEvent } from './prepared-event.ts';
import { appendSingles } from './sql/append-singles.ts';
import type { NewRun } from './store.ts';
import { verifyChain } from './verify-chain.ts';

let database: TestDatabase;
let stores: PostgresStore[];
let client: pg.Client;
beforeAll(async () => {
  database = await createTestDatabase();
  const open = () => PostgresStore.open({ url: database.url, maxConnections: 6 });
  stores = await Promise.all([open(), open(), open()]);
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  for (const store of stores) await store.close();
  await database.drop();
});

const task = (run: NewRun, n: number, payload: Record<string, unknown> = { attempts: 1 }): RunEventWrite =>
  sampleEvent(run, { eventType: 'TaskDone', stepId: 'fetch', entity: `fetch/get:${n}`, payload });

async function newRuns(count: number): Promise<NewRun[]> {
  const runs = Array.from({ length: count }, () => sampleRun(randomUUID()));
  await Promise.all(runs.map((run) => stores[0]!.createRun(run)));
  return runs;
}

const keyOf = async (run: NewRun): Promise<number> => (await stores[0]!.findRun(run.runId))!.runKey;

/** What a run's row says about its head. */
async function headOf(run: NewRun): Promise<Record<string, unknown>> {
  const { rows } = await client.query(
    `select status, last_seq, decided_seq, stream_era, chain_head = (select chain_hash from runledger.run_events e
              where e.run_key = r.run_key order by run_seq desc limit 1) as is_head from runledger.runs r where run_id = $1`,
    [run.runId],
  );
  return rows[0];
}

test('ES-1.1a producers of many runs in several processes, one event each at a time: no gap, no fork, time never runs back', async () => {
  const runs = await newRuns(12);
  const EACH = 15;
  // Two producers a run and process: whether a batch holds a run once, twice or another process has it is left to chance.
  await Promise.all(
    stores.flatMap((store, s) =>
      runs.flatMap((run) =>
        [0, 1].map(async (p) => {
          for (let i = 0; i < EACH; i++) {
            const result = await store.append([task(run, 1 + (s * 2 + p) * EACH + i)], { as: 'worker' });
            expect(result.ok && result.receipts[0]?.duplicate).toBe(false);
          }
        }),
      ),
    ),
  );
  for (const run of runs) {
    const records = await stores[0]!.readEvents(run.runId);
    expect(records.map(({ runSeq }) => runSeq)).toEqual(records.map((_, i) => i + 1));
    expect(records).toHaveLength(1 + 2 * EACH * stores.length);
    expect(verifyChain(records).ok).toBe(true);
    const times = records.map(({ persistedAt }) => persistedAt);
    expect(times).toEqual([...times].sort());
    expect(await headOf(run)).toMatchObject({ last_seq: String(records.length), is_head: true });
  }
});

test('a batch of single events moves the heads of its runs as one event after the other does', async () => {
  const [together, alone] = [await newRuns(9), await newRuns(9)];
  const kinds: ((run: NewRun) => RunEventWrite)[] = [
    (run) => runStarted(run),
    (run) => sampleEvent(run, { eventType: 'RunPaused' }),
    (run) => task(run, 1, { attempts: 1, result: { value: 'Größe "\\" 🎉' } }),
    (run) => sampleEvent(run, { eventType: 'RunResumed', logicalAttemptId: 3, engineAttemptId: 2 }),
  ];
  const emitter = (event: RunEventWrite) => (event.eventType === 'TaskDone' ? 'worker' : 'control');
  for (const kind of kinds) {
    await Promise.all(
      together.map(async (run) => {
        const result = await stores[0]!.append([kind(run)], { as: emitter(kind(run)) });
        expect(result.ok).toBe(true);
      }),
    );
    for (const run of alone) {
      const result = await stores[0]!.append([kind(run)], { as: emitter(kind(run)) });
      expect(result.ok).toBe(true);
    }
  }
  for (const [i, run] of together.entries()) {
    const other = alone[i] as NewRun;
    expect(await headOf(run)).toEqual(await headOf(other));
    const [mine, theirs] = await Promise.all([run, other].map((r) => stores[0]!.readEvents(r.runId)));
    const facts = (records: typeof mine) =>
      records!.map(({ eventType, entity, payload, logicalAttemptId, engineAttemptId, runSeq }) =>
        eventType === 'TaskDone' || eventType.startsWith('RunRe')
          ? { eventType, entity, payload, logicalAttemptId, engineAttemptId, runSeq }
          : { eventType, runSeq },
      );
    expect(facts(mine)).toEqual(facts(theirs));
    expect(verifyChain(mine!).ok).toBe(true);
  }
});

test('RE-3.2a what is not plain in a batch has its own answer, and its neighbours are stored', async () => {
  const runs = await newRuns(12);
  const [repeated, ended] = runs as [NewRun, NewRun];
  const first = task(repeated, 1);
  await stores[0]!.append([first], { as: 'worker' });
  await stores[0]!.append([runStarted(ended)], { as: 'control' });
  await stores[0]!.append([sampleEvent(ended, { eventType: 'RunCompleted' })], { as: 'control' });
  const results = await Promise.all(runs.map((run) => stores[0]!.append([task(run, 1)], { as: 'worker' })));
  expect(results[0]).toMatchObject({ ok: true, receipts: [{ eventId: first.eventId, runSeq: 2, duplicate: true }] });
  expect(results[1]).toMatchObject({ ok: false, error: { code: 'INVALID_TRANSITION' } });
  for (const result of results.slice(2))
    expect(result).toMatchObject({ ok: true, receipts: [{ runSeq: 2, duplicate: false }] });
});

test('a batch that is not plain changes nothing: a duplicate, a refusal, an unknown run, a run that comes twice', async () => {
  const runs = await newRuns(3);
  const [stored, ended, other] = runs as [NewRun, NewRun, NewRun];
  await stores[0]!.append([task(stored, 1)], { as: 'worker' });
  await stores[0]!.append([runStarted(ended)], { as: 'control' });
  await stores[0]!.append([sampleEvent(ended, { eventType: 'RunCompleted' })], { as: 'control' });
  const call = async (run: NewRun, n = 1) => ({
    runKey: await keyOf(run),
    events: [prepareEvent(task(run, n), { as: 'worker', maxEventBytes: 10_000 })],
  });
  const heads = async () => [await headOf(stored), await headOf(ended), await headOf(other)];
  const before = await heads();
  const good = await call(other);
  const cases: [string, (typeof good)[]][] = [
    ['23505', [await call(stored), good]],
    ['RL003', [await call(ended), good]],
    ['RL003', [good, { ...good, runKey: 2 ** 40 }]],
    ['RL003', [good, await call(other, 2)]],
  ];
  for (const [code, calls] of cases) {
    calls.sort((a, b) => a.runKey - b.runKey);
    await expect(appendSingles(stores[0]!.postgres, calls)).rejects.toMatchObject({ code });
  }
  expect(await heads()).toEqual(before);
  expect(await appendSingles(stores[0]!.postgres, [good])).toMatchObject({ seqs: [2] });
});

test('appends read rows through the right index even when their plan was made on an empty database', async () => {
  const fresh = await createTestDatabase();
  const store = await PostgresStore.open({ url: fresh.url });
  const RUNS = 20;
  const ROUNDS = 40;
  try {
    const runs = Array.from({ length: RUNS }, () => sampleRun(randomUUID()));
    await Promise.all(runs.map((run) => store.createRun(run)));
    for (let n = 1; n <= ROUNDS; n++) {
      await Promise.all(runs.map((run) => store.append([task(run, n)], { as: 'worker' })));
    }
    await store.close();
    const counts = new pg.Client({ connectionString: fresh.url });
    await counts.connect();
    try {
      // A session tells what it has counted when it ends.
      let read = { scans: 0, by_index: 0 };
      for (let i = 0; i < 100 && read.by_index < RUNS * ROUNDS; i++) {
        const { rows } = await counts.query(
          `select sum(seq_scan)::integer as scans, sum(idx_tup_fetch)::integer as by_index from pg_stat_user_tables
            where schemaname = 'runledger' and (relname = 'runs' or relname like 'run_events%')`,
        );
        read = rows[0];
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      expect(read.scans).toBe(0);
      // The run's row once for every event, or twice when it was locked first; and a little for the creation of the runs.
      expect(read.by_index).toBeGreaterThanOrEqual(RUNS * ROUNDS);
      expect(read.by_index).toBeLessThan(3 * RUNS * ROUNDS);
    } finally {
      await counts.end();
    }
  } finally {
    await store.close();
    await fresh.drop();
  }
});

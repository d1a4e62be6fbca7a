import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../test/setup/database.ts';
import { runStarted, sampleEvent, sampleRun } from '../testing/sample-events.ts';
import { PostgresStore } from './postgres-store.ts';
import { prepareEvent } from './prepared-event.ts';
import { commitWork, type PreparedCommit } from './sql/commit-work.ts';
import type { NewRun } from './store.ts';
import { verifyChain } from './verify-chain.ts';
import type { Lease } from './work.ts';

let database: TestDatabase;
let store: PostgresStore;
let client: pg.Client;
beforeAll(async () => {
  database = await createTestDatabase();
  store = await PostgresStore.open({ url: database.url });
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await store.close();
  await database.drop();
});

const LOOP = 'each@1';

interface Looping {
  readonly run: NewRun;
  readonly runKey: number;
  /** Iterations that this worker has, in the order in which it got them. */
  readonly held: Lease[];
}

interface Shape {
  readonly total: number;
  readonly inFlight: number;
  readonly skip: readonly number[];
}

/** A run in a loop whose first iterations are leased. */
async function looping({ total, inFlight, skip }: Shape): Promise<Looping> {
  const run = sampleRun(randomUUID());
  const made = await store.work.startRun({ ...run, events: [...run.events!, runStarted(run)] }, [
    { unit: 's:each@1', owner: 'me', leaseMs: 30_000 },
  ]);
  const first = Array.from({ length: total }, (_, i) => i)
    .filter((i) => !skip.includes(i))
    .slice(0, inFlight);
  const next = (first.at(-1) ?? -1) + 1;
  const result = await store.work.commit({
    run: { ...run, runKey: made.runKey },
    facts: [sampleEvent(run, { eventType: 'StepStarted', stepId: 'each' })],
    owner: 'me',
    work: [
      { op: 'delete', ...made.leases[0]! },
      ...first.map((i) => ({ op: 'insert', unit: `i:${LOOP}/${i}`, lease: true }) as const),
    ],
    loops: [{ op: 'begin', loop: LOOP, next, total, inFlight: first.length, maxInFlight: inFlight, skip }],
  });
  if (!result.ok) throw result.error;
  return { run, runKey: made.runKey, held: [...result.leases] };
}

/** Ends the first iterations that are held, together; `asked` are the statements that it took. */
async function endTogether(
  looped: Looping,
  count: number,
  { isAlone, stops = false }: { isAlone: boolean; stops?: boolean },
) {
  const { run, runKey, held } = looped;
  const ending = held.splice(0, count);
  const calls = ending.map(({ unit, fence }): PreparedCommit => {
    const index = Number(unit.split('/')[1]);
    const place = { stepId: 'each', entity: `each/${index}`, payload: { index } };
    const events = ['LoopIterationStarted', 'LoopIterationDone'].map((eventType) =>
      prepareEvent(sampleEvent(run, { eventType, ...place }), { as: 'worker', maxEventBytes: 10_000 }),
    );
    return {
      runKey,
      events,
      expectedHead: undefined,
      owner: 'me',
      tenantId: run.tenantId,
      leaseMs: 30_000,
      work: [{ op: 'delete', unit, fence }],
      loops: [{ op: 'ended', loop: LOOP, stop: stops }],
      receipts: [],
    };
  });
  const asked: (string | undefined)[] = [];
  const answers = await commitWork(
    (statement, values) => {
      asked.push(statement.name);
      return store.postgres.query(statement, values);
    },
    calls,
    { isAlone },
  );
  const handed = answers.map((answer) => (answer.ok ? (answer.handouts ?? []) : []));
  held.push(...handed.flat());
  return { asked, handed: handed.map((leases) => leases.map(({ unit }) => unit)), answers };
}

async function stored({ run, runKey }: Looping): Promise<unknown> {
  const { rows: work } = await client.query(
    `select unit, lease_owner, deliveries, held from runledger.work where run_key = $1 order by unit collate "C"`,
    [runKey],
  );
  const { rows: loops } = await client.query(
    `select step, next_index, total, in_flight, stopped from runledger.loops where run_key = $1`,
    [runKey],
  );
  const { rows: runs } = await client.query(
    `select status, last_seq, decided_seq from runledger.runs where run_key = $1`,
    [runKey],
  );
  const records = await store.readEvents(run.runId);
  expect(verifyChain(records).ok).toBe(true);
  return { work, loops, runs, records: records.map(({ eventType, entity }) => [eventType, entity]) };
}

test('iterations that end together are stored and followed as the long way does it, until the loop ends', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        total: fc.integer({ min: 1, max: 12 }),
        inFlight: fc.integer({ min: 1, max: 5 }),
        skip: fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: fc.constant([2, 3]) }),
      }),
      fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 12, maxLength: 12 }),
      async (shape, sizes) => {
        const [one, two] = await Promise.all([looping(shape), looping(shape)]);
        for (const size of sizes) {
          const count = Math.min(size, one.held.filter(({ unit }) => unit.startsWith('i:')).length);
          if (count === 0) break;
          const short = await endTogether(one, count, { isAlone: true });
          const long = await endTogether(two, count, { isAlone: false });
          expect(short.handed.flat().sort()).toEqual(long.handed.flat().sort());
          expect(await stored(one)).toEqual(await stored(two));
          if (shape.skip.length === 0) expect(short.asked).toEqual(['end_iterations']);
        }
      },
    ),
    { numRuns: 40 },
  );
});

test('RQ-3.2a an iteration whose lease is gone, one that stops the loop and a paused run go the long way', async () => {
  const shape = { total: 9, inFlight: 3, skip: [] };
  const lost = await looping(shape);
  lost.held[0] = { ...lost.held[0]!, fence: lost.held[0]!.fence + 1_000_000 };
  const { answers } = await endTogether(lost, 2, { isAlone: true });
  expect(answers[0]).toMatchObject({ ok: false, reason: 'LEASE_LOST' });
  expect(answers[1]).toMatchObject({ ok: true });

  const stopped = await looping(shape);
  const stop = await endTogether(stopped, 3, { isAlone: true, stops: true });
  expect(stop.handed.flat()).toEqual([`e:${LOOP}`]);

  const paused = await looping(shape);
  const { run, runKey } = paused;
  const pause = await store.work.commit({
    run: { ...run, runKey },
    decision: [sampleEvent(run, { eventType: 'RunPaused' })],
    work: [{ op: 'hold' }],
  });
  expect(pause.ok).toBe(true);
  const end = await endTogether(paused, 3, { isAlone: true });
  expect(end.answers.every((answer) => answer.ok)).toBe(true);
  expect(end.handed.flat()).toEqual([]);
});

import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../test/setup/database.ts';
import type { Emitter } from '../contracts/catalogue.ts';
import type { RunEventWrite } from '../contracts/envelope.ts';
import { runStarted, sampleError, sampleEvent, sampleRun } from '../testing/sample-events.ts';
import { appendToModel, explainCalls, type ModelAnswer, NEW_RUN, type ObservedCall } from './append-model.fixture.ts';
import { PostgresStore } from './postgres-store.ts';
import type { EventFacts } from './stamp-event.ts';
import type { AppendResult, NewRun } from './store.ts';
import { verifyChain } from './verify-chain.ts';

let database: TestDatabase;
let stores: PostgresStore[];
beforeAll(async () => {
  database = await createTestDatabase();
  const open = () => PostgresStore.open({ url: database.url, maxConnections: 6 });
  stores = await Promise.all([open(), open(), open()]);
});
afterAll(async () => {
  for (const store of stores) await store.close();
  await database.drop();
});

const step = fc.constantFrom('a', 'b');
const attempt = fc.constantFrom(1, 1, 2);
const stepEvent = (eventType: string, payload?: Record<string, unknown>): fc.Arbitrary<EventFacts> =>
  fc.record({ stepId: step, logicalAttemptId: attempt }).map((place) => ({ eventType, ...place, payload }));
const runEvent = (eventType: string): fc.Arbitrary<EventFacts> =>
  fc.constantFrom(1, 2).map((logicalAttemptId) => ({ eventType, logicalAttemptId }));
const task: fc.Arbitrary<EventFacts> = fc.integer({ min: 1, max: 8 }).map((n) => ({
  eventType: 'TaskDone',
  stepId: 'a',
  entity: `a/get:${n}`,
  payload: { attempts: 1, result: { value: 'x'.repeat(n * 20) } },
}));
const ended: fc.Arbitrary<EventFacts> = fc.oneof(
  stepEvent('StepCompleted'),
  stepEvent('StepFailed', { error: sampleError }),
);
const byWorker = fc.oneof({ weight: 4, arbitrary: task }, stepEvent('StepStarted'), ended);
const byControl = fc.oneof(
  stepEvent('StepScheduled'),
  stepEvent('StepSkipped', { reason: 'no' }),
  ended,
  runEvent('RunPaused'),
  runEvent('RunResumed'),
  { weight: 1, arbitrary: fc.constantFrom({ eventType: 'RunCompleted' }, { eventType: 'RunCancelled' }) },
);

interface Operation {
  readonly store: number;
  readonly run: number;
  readonly as: Emitter;
  readonly facts: readonly EventFacts[];
  /** How far behind the head that was last seen the call was decided; undefined means without a head. */
  readonly behind: number | undefined;
  /** Which of its events the call repeats within itself. */
  readonly repeat: number;
}

const operation: fc.Arbitrary<Operation> = fc.constantFrom<Emitter>('worker', 'worker', 'control').chain((as) =>
  fc.record({
    store: fc.nat(2),
    run: fc.nat(3),
    as: fc.constant(as),
    facts: fc.array(as === 'worker' ? byWorker : byControl, { minLength: 1, maxLength: 4 }),
    behind: fc.constantFrom(undefined, undefined, undefined, 0, 0, 1),
    repeat: fc.nat(9),
  }),
);

function eventsOf({ facts, repeat }: Operation, run: NewRun): RunEventWrite[] {
  const events = facts.map((fact) => sampleEvent(run, fact));
  const again = facts[repeat];
  return again ? [...events, sampleEvent(run, again)] : events;
}

function toModel(result: AppendResult): ModelAnswer {
  if (result.ok) {
    return {
      ok: true,
      receipts: result.receipts.map(({ eventId, runSeq, duplicate }) => ({ eventId, runSeq, duplicate })),
    };
  }
  const { code, details } = result.error;
  return { ok: false, code, actual: (details['actualState'] ?? details['actualHead']) as string | number };
}

test('RE-3.2a RE-5.3b ES-1.1a random appenders in several processes are answered as if they had come one after the other', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(operation, { minLength: 40, maxLength: 120 }), async (operations) => {
      const runs = Array.from({ length: 4 }, () => sampleRun(randomUUID()));
      // Creation is raced for as well.
      const made = await Promise.all(runs.flatMap((run) => stores.map((store) => store.createRun(run))));
      expect(made.filter(({ created }) => created)).toHaveLength(4);
      await Promise.all(runs.map((run) => stores[0]!.append([runStarted(run)], { as: 'control' })));
      const calls: ObservedCall[][] = runs.map(() => []);
      const heads = runs.map(() => 2);
      let clock = 0;
      const play = async (operation: Operation): Promise<void> => {
        const events = eventsOf(operation, runs[operation.run] as NewRun);
        const head = heads[operation.run] as number;
        const expectedHead = operation.behind === undefined ? undefined : Math.max(0, head - operation.behind);
        const began = ++clock;
        const options = { as: operation.as, ...(expectedHead === undefined ? {} : { expectedHead }) };
        const answer = toModel(await stores[operation.store]!.append(events, options));
        if (!answer.ok && answer.code === 'HEAD_MOVED') heads[operation.run] = answer.actual as number;
        calls[operation.run]!.push({ events, expectedHead, began, ended: ++clock, answer });
      };
      // Eight producers, each of which waits for its answer, and some bursts that do not.
      const queue = [...operations];
      await Promise.all(
        Array.from({ length: 8 }, async (_, producer) => {
          while (queue.length > 0) await Promise.all(queue.splice(0, producer === 0 ? 6 : 1).map(play));
        }),
      );
      for (const [i, run] of runs.entries()) {
        const records = await stores[i % 3]!.readEvents(run.runId);
        const first = appendToModel(NEW_RUN, records.slice(0, 2)).run;
        const model = explainCalls(calls[i]!, first);
        expect(records.map((record) => [record.idempotencyKey, record.eventId, record.runSeq])).toEqual(
          [...model.stored].map(([key, { eventId, runSeq }]) => [key, eventId, runSeq]),
        );
        const report = verifyChain(records);
        expect(report).toMatchObject({ ok: true });
        expect(await stores[0]!.findRun(run.runId)).toMatchObject({
          status: model.status,
          lastSeq: model.lastSeq,
          decidedSeq: model.decidedSeq,
          chainHead: report.ok && report.head.chainHash,
        });
        const times = records.map((record) => record.persistedAt);
        expect(times).toEqual([...times].sort());
      }
    }),
    { seed: 20_260_211, numRuns: 40, endOnFailure: true },
  );
});

test('RE-3.2a an event that a refused call of the same batch held is neither lost nor doubled', async () => {
  const run = sampleRun(randomUUID());
  const store = stores[0] as PostgresStore;
  await store.createRun(run);
  await store.append([runStarted(run)], { as: 'control' });
  const scheduled = () => sampleEvent(run, { eventType: 'StepScheduled', stepId: 'a' });
  const paused = () => sampleEvent(run, { eventType: 'RunPaused' });
  const resumed = () => sampleEvent(run, { eventType: 'RunResumed' });
  const call = (events: RunEventWrite[]) => ({ events, options: { as: 'control' as const } });
  const codes = (results: AppendResult[]) =>
    results.map((result) => (result.ok ? result.receipts.map((r) => [r.runSeq, r.duplicate]) : result.error.code));
  const results = await store.appendMany([
    call([scheduled(), resumed()]), // refused: the run is not paused
    call([scheduled(), paused(), scheduled()]),
    call([paused(), resumed(), sampleEvent(run, { eventType: 'StepCompleted', stepId: 'z' })]), // refused
    call([paused(), scheduled()]),
    call([resumed(), resumed()]),
  ]);
  expect(codes(results)).toEqual([
    'INVALID_TRANSITION',
    [
      [3, false],
      [4, false],
      [3, true],
    ],
    'INVALID_TRANSITION',
    [
      [4, true],
      [3, true],
    ],
    [
      [5, false],
      [5, true],
    ],
  ]);
  // Accepted, then refused, then sent again, all in one batch.
  const done = (step: string) =>
    sampleEvent(run, { eventType: 'StepSkipped', stepId: step, payload: { reason: 'no' } });
  const again = await store.appendMany([
    call([done('b')]),
    call([done('b'), done('a'), done('a'), resumed()]),
    call([done('b')]),
  ]);
  const wrong = await store.appendMany([
    call([sampleEvent(run, { eventType: 'RunPaused', logicalAttemptId: 2 })]),
    call([
      sampleEvent(run, { eventType: 'RunPaused', logicalAttemptId: 2 }),
      sampleEvent(run, { eventType: 'RunCompleted' }),
    ]),
    call([sampleEvent(run, { eventType: 'RunPaused', logicalAttemptId: 2 })]),
  ]);
  expect(codes(again)).toEqual([
    [[6, false]],
    [
      [6, true],
      [7, false],
      [7, true],
      [5, true],
    ],
    [[6, true]],
  ]);
  expect(codes(wrong)).toEqual([[[8, false]], 'INVALID_TRANSITION', [[8, true]]]);
  expect(verifyChain(await store.readEvents(run.runId))).toMatchObject({ ok: true, records: 8 });
});

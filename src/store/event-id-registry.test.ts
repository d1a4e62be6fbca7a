import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../test/setup/database.ts';
import type { RunEventWrite } from '../contracts/envelope.ts';
import { idempotencyKey } from '../lib/idempotency-key.ts';
import { runStarted, sampleRun } from '../testing/sample-events.ts';
import { EventIdRegistry } from './event-id-registry.ts';
import { PostgresStore } from './postgres-store.ts';
import { stampEvent } from './stamp-event.ts';
import type { AppendResult, NewRun } from './store.ts';

let database: TestDatabase;
let store: PostgresStore;
beforeAll(async () => {
  database = await createTestDatabase();
  store = await PostgresStore.open({ url: database.url });
});
afterAll(async () => {
  await store.close();
  await database.drop();
});

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const facts = { eventType: 'StepStarted', stepId: 'fetch' };
const keyOf = (run: NewRun, logicalAttemptId = 1) => idempotencyKey({ ...run, ...facts, logicalAttemptId });

async function startedRun(): Promise<NewRun> {
  const run = sampleRun(randomUUID());
  await store.createRun(run);
  await store.append([runStarted(run)], { as: 'control' });
  return run;
}

/** What a producer does each time that it comes to this point: the id is in the registry before the append is tried. */
function emission(registry: EventIdRegistry, run: NewRun): RunEventWrite {
  const eventId = registry.idFor(run.runId, keyOf(run));
  return stampEvent(run, facts, { emittedAt: new Date().toISOString(), eventId });
}

const idOf = (result: AppendResult): string | undefined => (result.ok ? result.receipts[0]?.eventId : undefined);

test('RE-2.5a RE-2.5d a producer whose append failed sends the same eventId again', async () => {
  const run = await startedRun();
  const registry = new EventIdRegistry();
  const gone = await PostgresStore.open({ url: database.url });
  await gone.close();
  const first = emission(registry, run);
  await expect(gone.append([first], { as: 'worker' })).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' });
  const second = emission(registry, run);
  expect(second.eventId).toBe(first.eventId);
  expect(idOf(await store.append([second], { as: 'worker' }))).toBe(first.eventId);
});

test('RE-2.5a RE-2.5d after a restart the registry is replayed from the log, and an event whose answer was lost keeps its id', async () => {
  const run = await startedRun();
  const stored = idOf(await store.append([emission(new EventIdRegistry(), run)], { as: 'worker' }));
  // The process ends here, before it heard the answer. The next one folds the run and fills its registry.
  const restarted = new EventIdRegistry();
  restarted.restore(await store.readEvents(run.runId));
  const again = emission(restarted, run);
  expect(again.eventId).toBe(stored);
  expect(await store.append([again], { as: 'worker' })).toMatchObject({
    ok: true,
    receipts: [{ eventId: stored, duplicate: true }],
  });
});

test('RE-2.5d an id that was never stored was seen by nobody: a restarted producer may take a new one', async () => {
  const run = await startedRun();
  const lost = emission(new EventIdRegistry(), run);
  const restarted = new EventIdRegistry();
  restarted.restore(await store.readEvents(run.runId));
  const event = emission(restarted, run);
  expect(event.eventId).not.toBe(lost.eventId);
  expect(idOf(await store.append([event], { as: 'worker' }))).toBe(event.eventId);
});

test('RE-2.5b a producer that is told another eventId adopts it for the rest of the run', async () => {
  const run = await startedRun();
  const winner = new EventIdRegistry();
  const loser = new EventIdRegistry();
  const stored = idOf(await store.append([emission(winner, run)], { as: 'worker' }));
  const late = emission(loser, run);
  expect(late.eventId).not.toBe(stored);
  const answer = await store.append([late], { as: 'worker' });
  expect(idOf(answer)).toBe(stored);
  loser.adopt(run.runId, late.idempotencyKey, { eventId: idOf(answer) as string });
  expect(emission(loser, run).eventId).toBe(stored);
  expect(emission(winner, run).eventId).toBe(stored);
});

test('RE-2.5c RE-2.5d ids are random v4, one per run and key', () => {
  const registry = new EventIdRegistry();
  const [run, other] = [sampleRun('r1'), sampleRun('r2')];
  const id = registry.idFor(run.runId, keyOf(run));
  expect(id).toMatch(UUID_V4);
  expect(registry.idFor(run.runId, keyOf(run))).toBe(id);
  expect(registry.idFor(run.runId, keyOf(run, 2))).not.toBe(id);
  expect(registry.idFor(other.runId, keyOf(run))).not.toBe(id);
  expect(new EventIdRegistry().idFor(run.runId, keyOf(run))).not.toBe(id);
});

test('a run that is forgotten takes its ids with it and leaves the others', () => {
  const registry = new EventIdRegistry();
  const [first, second] = [registry.idFor('r1', 'k'), registry.idFor('r2', 'k')];
  registry.forget('r1');
  expect(registry.idFor('r1', 'k')).not.toBe(first);
  expect(registry.idFor('r2', 'k')).toBe(second);
});

import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { RunEventWrite } from '../../src/contracts/envelope.ts';
import { PostgresStore } from '../../src/store/postgres-store.ts';
import type { NewRun } from '../../src/store/store.ts';
import { verifyChain } from '../../src/store/verify-chain.ts';
import { runStarted, sampleEvent, sampleRun } from '../../src/testing/sample-events.ts';
import { createTestDatabase, type TestDatabase } from '../setup/database.ts';
import { LossyProxy } from './lossy-proxy.fixture.ts';

let database: TestDatabase;
let proxy: LossyProxy;
let direct: PostgresStore;
let store: PostgresStore;
let run: NewRun;

beforeAll(async () => {
  database = await createTestDatabase();
  proxy = new LossyProxy(database.url);
  direct = await PostgresStore.open({ url: database.url });
  store = await PostgresStore.open({ url: await proxy.listen(database.url), retryForMs: 20_000 });
});
afterAll(async () => {
  proxy.refuse = true;
  await store.close();
  await proxy.close();
  await direct.close();
  await database.drop();
});
beforeEach(async () => {
  run = sampleRun(randomUUID());
  await store.createRun(run);
  await store.append([runStarted(run)], { as: 'control' });
});

const task = (n: number): RunEventWrite =>
  sampleEvent(run, { eventType: 'TaskDone', stepId: 'a', entity: `a/get:${n}`, payload: { attempts: n } });

/** Does the call and loses the first answer of the named function of the database. */
async function losingAnswer<T>(of: string, call: () => Promise<T>): Promise<T> {
  const before = proxy.cuts;
  proxy.loseAnswerTo = of;
  const answer = await call();
  expect(proxy.cuts).toBe(before + 1);
  return answer;
}

test('RE-3.2a an append whose answer is lost is sent again by the store and stored once, with the ids that were sent', async () => {
  for (const events of [[task(1)], [task(2), task(3), task(4)]]) {
    const result = await losingAnswer('append_', () => store.append(events, { as: 'worker' }));
    expect(result).toMatchObject({ ok: true });
    const records = await direct.readEvents(run.runId, { types: ['TaskDone'] });
    const sent = events.map((event) => records.find((record) => record.idempotencyKey === event.idempotencyKey));
    expect(sent.map((record) => record?.eventId)).toEqual(events.map((event) => event.eventId));
    expect(result.ok && result.receipts.map((receipt) => receipt.runSeq)).toEqual(sent.map((record) => record?.runSeq));
  }
  expect(verifyChain(await direct.readEvents(run.runId))).toMatchObject({ ok: true, records: 6 });
});

test('a decision whose answer is lost succeeds when it is sent again, though the head has moved by itself', async () => {
  const head = (await direct.findRun(run.runId))!.decidedSeq;
  const event = sampleEvent(run, { eventType: 'StepScheduled', stepId: 'a' });
  const result = await losingAnswer('append_', () => store.append([event], { as: 'control', expectedHead: head }));
  expect(result).toMatchObject({ ok: true, receipts: [{ runSeq: 3, eventId: event.eventId }] });
});

test('a run whose creation was answered in vain exists once, with its events once', async () => {
  const other = sampleRun(randomUUID());
  const made = await losingAnswer('create_runs', () => store.createRun(other));
  expect(made.runId).toBe(other.runId);
  expect(await direct.readEvents(other.runId)).toHaveLength(1);
  expect(await store.append([runStarted(other)], { as: 'control' })).toMatchObject({ ok: true });
});

test('an erasure whose answer is lost is done once and answered with its event', async () => {
  await store.append([task(1), task(2)], { as: 'worker' });
  const request = { runSeqs: [3], reason: 'asked for', emittedAt: '2026-03-01T00:00:00Z' };
  const receipt = await losingAnswer('erase_payloads', () => store.erase(run.runId, request));
  const records = await direct.readEvents(run.runId);
  expect(records.filter((record) => record.eventType === 'PayloadErased')).toHaveLength(1);
  expect(records.at(-1)).toMatchObject({ runSeq: receipt.runSeq, eventId: receipt.eventId });
  expect(verifyChain(records)).toMatchObject({ ok: true, erased: [3] });
});

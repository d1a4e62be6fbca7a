import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../test/setup/database.ts';
import type { RunEventWrite } from '../contracts/envelope.ts';
import { AppError } from '../contracts/errors.ts';
import { idempotencyKey } from '../lib/idempotency-key.ts';
import { runStarted, sampleEvent, sampleRun } from '../testing/sample-events.ts';
import { PostgresStore } from './postgres-store.ts';
import type { NewRun, Store } from './store.ts';
import { verifyChain } from './verify-chain.ts';

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

async function startedRun(overrides: Partial<NewRun> = {}): Promise<NewRun> {
  const run = sampleRun(randomUUID(), overrides);
  await store.createRun(run);
  await store.append([runStarted(run)], { as: 'control' });
  return run;
}

const task = (run: NewRun, n: number, value: unknown): RunEventWrite =>
  sampleEvent(run, {
    eventType: 'TaskDone',
    stepId: 'fetch',
    entity: `fetch/get:${n}`,
    payload: { attempts: 1, result: { value } },
  });

const step = (run: NewRun, facts = {}): RunEventWrite =>
  sampleEvent(run, { eventType: 'StepStarted', stepId: 'a', ...facts });

/** What the store holds in all: a refusal may change none of it. */
async function contents(): Promise<unknown> {
  const text = `select (select count(*) from runledger.run_events)::int as events, (select count(*) from runledger.runs)::int as runs,
    (select count(*) from runledger.run_refs)::int as refs, (select coalesce(sum(last_seq), 0) from runledger.runs)::int as heads,
    (select count(*) from runledger.run_events where salt is null)::int as erased`;
  return (await store.postgres.query({ name: 'contents', text }))[0];
}

/** The call is refused with this code, by a value or an exception, and leaves everything as it was. */
async function refused(code: string, call: () => Promise<unknown>): Promise<AppError> {
  const before = await contents();
  let error: unknown;
  try {
    const result = (await call()) as { ok?: boolean; error?: unknown } | undefined;
    error = result?.ok === false ? result.error : undefined;
  } catch (thrown) {
    error = thrown;
  }
  expect(error, `nothing was refused, expected ${code}`).toBeInstanceOf(AppError);
  expect((error as AppError).code).toBe(code);
  expect(await contents()).toEqual(before);
  return error as AppError;
}

const paths = (error: AppError): string[] =>
  (error.details['problems'] as { path: string }[]).map((problem) => problem.path);
const appendOf = (event: unknown, on: Store = store) => on.append([event as RunEventWrite], { as: 'worker' });

test('ES-Aa an event that fails its schema is refused with the path of each problem, and nothing is stored', async () => {
  const run = await startedRun();
  const error = await refused('SCHEMA_VALIDATION_FAILED', () =>
    appendOf({ ...step(run), tenantId: 7, planVersion: undefined, surprise: true }),
  );
  expect(paths(error).sort()).toEqual(['/planVersion', '/surprise', '/tenantId']);
  expect(error.message).toContain('StepStarted');
  for (const value of [null, undefined, 7, 'text', [], {}]) {
    await refused('SCHEMA_VALIDATION_FAILED', () => appendOf(value));
  }
});

test('ES-Aa one bad event among good ones refuses the whole call', async () => {
  const run = await startedRun();
  const events = [task(run, 1, 1), task(run, 2, 2), { ...task(run, 3, 3), planId: 'a|b' }];
  const error = await refused('SCHEMA_VALIDATION_FAILED', () => store.append(events, { as: 'worker' }));
  expect(paths(error)).toEqual(['/planId']);
});

test('RE-3.1a a key that does not follow from the fields of the event is refused', async () => {
  const run = await startedRun();
  const event = step(run);
  const keys = [
    idempotencyKey({ ...event, logicalAttemptId: 2 }),
    idempotencyKey({ ...event, stepId: 'b' }),
    event.idempotencyKey.toUpperCase(),
    'ff'.repeat(32),
  ];
  for (const key of keys) {
    const error = await refused('SCHEMA_VALIDATION_FAILED', () => appendOf({ ...event, idempotencyKey: key }));
    expect(paths(error)).toEqual(['/idempotencyKey']);
  }
});

test('values that JSON cannot say are refused by their place in the payload', async () => {
  const run = await startedRun();
  const cyclic: Record<string, unknown> = { fine: 1 };
  cyclic['self'] = cyclic;
  const deep = JSON.parse(`${'{"a":'.repeat(5000)}1${'}'.repeat(5000)}`) as unknown;
  const bad: [unknown, RegExp][] = [
    [new Date(), /^\/payload\/result\/value$/],
    [{ when: [1, new Date()] }, /^\/payload\/result\/value\/when\/1$/],
    [{ big: 10n }, /^\/payload\/result\/value\/big$/],
    [{ fn: () => 1 }, /^\/payload\/result\/value\/fn$/],
    [{ s: Symbol('x') }, /^\/payload\/result\/value\/s$/],
    [{ nan: Number.NaN }, /^\/payload\/result\/value\/nan$/],
    [new Map([[1, 2]]), /^\/payload\/result\/value$/],
    [Buffer.from('x'), /^\/payload\/result\/value$/],
    [cyclic, /^\/payload\/result\/value\/self\/self/],
    [deep, /^\/payload\/result\/value\/a\/a/],
  ];
  for (const [value, path] of bad) {
    const error = await refused('SCHEMA_VALIDATION_FAILED', () => appendOf(task(run, 1, value)));
    expect(paths(error)).toEqual([expect.stringMatching(path)]);
    expect(error.message.length).toBeLessThan(2000);
  }
  await refused('SCHEMA_VALIDATION_FAILED', () => appendOf({ ...step(run), payload: new Date() }));
  await refused('SCHEMA_VALIDATION_FAILED', () => appendOf({ ...step(run), payload: new Map() }));
});

test('a payload over the configured limit is refused by its bytes, not its characters', async () => {
  const small = await PostgresStore.open({ url: database.url, maxEventBytes: 1000 });
  const run = await startedRun();
  const frame = Buffer.byteLength(JSON.stringify({ attempts: 1, result: { value: '' } }));
  await refused('EVENT_TOO_LARGE', () => appendOf(task(run, 1, 'é'.repeat(500)), small));
  await refused('EVENT_TOO_LARGE', () => appendOf(task(run, 1, 'x'.repeat(1001 - frame)), small));
  expect(await appendOf(task(run, 1, 'x'.repeat(1000 - frame)), small)).toMatchObject({ ok: true });
  await small.close();
});

test('a call over its limits of events and bytes is refused', async () => {
  const run = await startedRun();
  const event = task(run, 1, 'x');
  await refused('EVENT_TOO_LARGE', () =>
    store.append(
      Array.from({ length: 10_001 }, () => event),
      { as: 'worker' },
    ),
  );
  const big = task(run, 1, 'x'.repeat(255 * 1024));
  await refused('EVENT_TOO_LARGE', () =>
    store.append(
      Array.from({ length: 258 }, () => big),
      { as: 'worker' },
    ),
  );
});

test('RE-3.1c NUL, | and half surrogate pairs in ids are refused before the database sees them', async () => {
  const run = await startedRun();
  for (const bad of ['a\0', 'a|b', 'a\ud800']) {
    expect(paths(await refused('SCHEMA_VALIDATION_FAILED', () => appendOf(step(run, { stepId: bad }))))).toEqual([
      '/stepId',
    ]);
    await refused('SCHEMA_VALIDATION_FAILED', () => store.createRun(sampleRun(`run-${bad}`)));
    await refused('SCHEMA_VALIDATION_FAILED', () =>
      store.createRun({ ...sampleRun('x', { planId: bad }), events: [] }),
    );
  }
});

test('a step called signal is refused: its entities could not be told from signals', async () => {
  const run = await startedRun();
  await refused('SCHEMA_VALIDATION_FAILED', () =>
    appendOf(
      sampleEvent(run, { eventType: 'TaskDone', stepId: 'signal', entity: 'signal/get:1', payload: { attempts: 1 } }),
    ),
  );
});

test('a run is checked as a whole, with or without events', async () => {
  const good = { ...sampleRun(randomUUID()), events: [] };
  const bad: Partial<Record<keyof NewRun, unknown>>[] = [
    { runId: '' },
    { runId: 7 },
    { runId: undefined },
    { runId: 'a|b' },
    { tenantId: '' },
    { tenantId: null },
    { projectId: 'x\0' },
    { environmentId: 'x'.repeat(513) },
    { planVersion: 2 },
    { runRequestId: '' },
    { runRequestId: 'a\0' },
    { trigger: { type: 'webhook' } },
    { trigger: { type: 'webhook', ref: '\0' } },
    { parentRunId: 'a|b' },
    { retryOf: 7 },
    { tenantId: '漢'.repeat(500), projectId: '漢'.repeat(500) },
    { tenantId: 'a|b', runRequestId: 'r' },
  ];
  for (const fields of bad) {
    await refused('SCHEMA_VALIDATION_FAILED', () => store.createRun({ ...good, ...fields } as NewRun));
  }
  const long = { tenantId: '漢'.repeat(400), projectId: 'p'.repeat(512), environmentId: 'e'.repeat(512) };
  expect(await store.createRun({ ...good, ...long })).toMatchObject({ created: true });
});

test('a run whose first events are refused is not created, and can be created rightly afterwards', async () => {
  const run = sampleRun(randomUUID());
  const resumed = sampleEvent(run, { eventType: 'RunResumed' });
  await refused('INVALID_TRANSITION', () => store.createRun({ ...run, events: [resumed] }));
  await refused('INVALID_TRANSITION', () => store.createRun({ ...run, events: [...(run.events ?? []), resumed] }));
  await refused('SCHEMA_VALIDATION_FAILED', () =>
    store.createRun({ ...run, events: [runStarted({ ...run, runId: 'another' })] }),
  );
  expect(await store.findRun(run.runId)).toBeUndefined();
  expect(await store.append([resumed], { as: 'control' })).toMatchObject({
    ok: false,
    error: { code: 'RUN_NOT_FOUND' },
  });
  expect(await store.createRun(run)).toEqual({ runId: run.runId, created: true });
});

test('creating a run that exists appends nothing to it, whatever events come along', async () => {
  const key = randomUUID();
  const first = sampleRun(randomUUID(), { runRequestId: key, trigger: { type: 'webhook', ref: key } });
  await store.createRun(first);
  const events = await store.readEvents(first.runId);
  const queued = (run: NewRun) => ({ ...run, events: [sampleEvent(run, { eventType: 'RunQueued' })] });
  const others = [
    queued(sampleRun(randomUUID(), { runRequestId: key })),
    queued(sampleRun(randomUUID(), { trigger: { type: 'webhook', ref: key } })),
    queued(first),
    { ...first, events: [...(first.events ?? []), runStarted(first)] },
  ];
  for (const other of others) expect(await store.createRun(other)).toEqual({ runId: first.runId, created: false });
  for (const change of [
    { tenantId: 'x' },
    { projectId: 'x' },
    { environmentId: 'x' },
    { planId: 'x' },
    { planVersion: 'x' },
  ]) {
    await refused('RUN_EXISTS', () => store.createRun(queued({ ...sampleRun(first.runId, change) })));
  }
  expect(await store.readEvents(first.runId)).toEqual(events);
  expect(verifyChain(events)).toMatchObject({ ok: true, records: 1 });
});

test('two tenants whose names could be joined to the same text do not share a request', async () => {
  const request = { runRequestId: 'r1', projectId: 'p', environmentId: 'e' };
  const made = await store.createRun(sampleRun(randomUUID(), { ...request, tenantId: 'a', projectId: 'b' }));
  expect(made.created).toBe(true);
  await refused('SCHEMA_VALIDATION_FAILED', () =>
    store.createRun(sampleRun(randomUUID(), { ...request, tenantId: 'a|b', projectId: 'e' })),
  );
});

test('numbers, times and ids of a query that make no sense get a coded error', async () => {
  const run = await startedRun();
  for (const value of [-1, 1.5, Number.NaN, Infinity, '1; drop table' as unknown as number]) {
    await refused('USAGE', () => store.readEvents(run.runId, { afterSeq: value }));
    await refused('USAGE', () => store.readEvents(run.runId, { throughSeq: value }));
    await refused('USAGE', () => store.readEvents(run.runId, { limit: value }));
    await refused('USAGE', () => store.append([step(run)], { as: 'worker', expectedHead: value }));
    await refused('USAGE', () =>
      store.erase(run.runId, { runSeqs: [value], reason: 'x', emittedAt: '2026-01-01T00:00:00Z' }),
    );
  }
  await refused('USAGE', () => store.readEvents(run.runId, { entity: 'a\0' }));
  await refused('SCHEMA_VALIDATION_FAILED', () => store.readEvents(run.runId, { types: ['Nonsense'] }));
  const window = { from: '2026-01-01T00:00:00Z', to: '2026-01-02T00:00:00Z' };
  for (const bad of ['yesterday', '', '2026-01-01', null as unknown as string]) {
    await refused('USAGE', () => store.readWindow({ ...window, from: bad }));
    await refused('USAGE', () => store.readWindow({ ...window, to: bad }));
  }
  await refused('USAGE', () => store.readWindow({ ...window, tenantId: '\0' }));
  for (const id of ['\0', '', 7 as unknown as string, 'nobody', 'a\ud800']) {
    await refused('RUN_NOT_FOUND', () => store.readEvents(id));
    expect(await store.findRun(id)).toBeUndefined();
  }
  await refused('SCHEMA_VALIDATION_FAILED', () =>
    store.findRunByProvider({ provider: 'x', workflowId: '\0', providerRunId: 'r' }),
  );
  const ref = { provider: 'temporal', workflowId: '漢'.repeat(500), providerRunId: '漢'.repeat(500) };
  await refused('SCHEMA_VALIDATION_FAILED', () => store.linkProvider(run.runId, ref));
});

test('an erasure that cannot be done changes nothing, and of two of the same record exactly one succeeds', async () => {
  const run = await startedRun();
  await store.append([task(run, 1, 'secret'), task(run, 2, 'kept')], { as: 'worker' });
  const request = { reason: 'asked for', emittedAt: '2026-03-01T00:00:00Z' };
  await refused('USAGE', () => store.erase(run.runId, { ...request, runSeqs: [] }));
  await refused('USAGE', () => store.erase(run.runId, { ...request, runSeqs: [3, 99] }));
  await refused('SCHEMA_VALIDATION_FAILED', () =>
    store.erase(run.runId, { ...request, runSeqs: [3], emittedAt: 'now' }),
  );
  const other = await PostgresStore.open({ url: database.url });
  const both = await Promise.allSettled(
    [store, other, store, other].map((on) => on.erase(run.runId, { ...request, runSeqs: [3] })),
  );
  expect(both.filter((result) => result.status === 'fulfilled')).toHaveLength(1);
  for (const result of both) {
    if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'PAYLOAD_ERASED' });
  }
  await other.close();
  expect(verifyChain(await store.readEvents(run.runId))).toMatchObject({ ok: true, records: 5, erased: [3] });
});

test('an import keeps ids and keys, is checked all the same, and cannot bring another role or run', async () => {
  const run = await startedRun();
  const imported = { as: 'control' as const, imported: true };
  const old = { ...step(run), eventId: '01234567-89ab-cdef-0123-456789abcdef', idempotencyKey: 'd2'.repeat(32) };
  expect(await store.append([old], imported)).toMatchObject({ ok: true, receipts: [{ eventId: old.eventId }] });
  expect((await store.readEvents(run.runId)).at(-1)).toMatchObject(old);
  await refused('SCHEMA_VALIDATION_FAILED', () => store.append([{ ...old, eventId: 'garbage' }], imported));
  await refused('SCHEMA_VALIDATION_FAILED', () => store.append([{ ...old, eventType: 'Nonsense' }], imported));
  await refused('SCHEMA_VALIDATION_FAILED', () => store.append([{ ...old, idempotencyKey: 'short' }], imported));
  await refused('SCHEMA_VALIDATION_FAILED', () => store.append([{ ...old, tenantId: 'other' }], imported));
  await refused('SCHEMA_VALIDATION_FAILED', () => appendOf(old));
  expect(verifyChain(await store.readEvents(run.runId))).toMatchObject({ ok: true });
});

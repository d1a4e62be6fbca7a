import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Type from 'typebox';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { LedgerRecord } from '../../contracts/envelope.ts';
import { armFaultPoints } from '../../lib/fault-point.ts';
import { ENGINE_TOOL_FORMS, engineTools } from '../../testing/engine-tools.ts';
import { memoryArtifacts } from '../../tools/call-context.fixture.ts';
import { defineTool } from '../../tools/define-tool.ts';
import { HttpTool } from '../../tools/http/http-tool.ts';
import { startServer } from '../../tools/http/test-server.fixture.ts';
import { noopTool } from '../../tools/noop/noop-tool.ts';
import { playbook } from '../test-bench.fixture.ts';
import { of, traces, until } from '../watching.fixture.ts';
import { type EngineBench, openEngine } from './native.fixture.ts';

let bench: EngineBench;
let folder: string;
const artifacts = memoryArtifacts();
const tools = { tools: ENGINE_TOOL_FORMS };
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'runledger-again-'));
  bench = await openEngine({ worker: false, artifacts });
});
afterAll(async () => {
  await bench?.close();
  rmSync(folder, { recursive: true, force: true });
});
let disarm: (() => void) | undefined;
afterEach(() => disarm?.());

/** Whoever reaches the point first stays there until it is let go. */
function holdFirstAt(point: string): { readonly reached: Promise<void>; letGo(): void } {
  let letGo = (): void => {};
  let arrived = (): void => {};
  let isFirst = true;
  const reached = new Promise<void>((resolve) => {
    arrived = resolve;
  });
  const gate = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  disarm = armFaultPoints(async (name) => {
    if (name !== point || !isFirst) return;
    isFirst = false;
    arrived();
    await gate;
  });
  return { reached, letGo };
}

/** The step is taken by one worker, which is held at the point, and given to another one meanwhile. */
async function twoWorkers(point: string, file: string, timeout: number): Promise<LedgerRecord[]> {
  const ref = await bench.start(
    playbook(`- {step: start, tool: {kind: effect, file: ${file}, result: 7, spec: {timeout: ${timeout}}}}`),
    tools,
  );
  const held = holdFirstAt(point);
  const options = { url: bench.url, tools: engineTools(), artifacts, worker: { pollMs: 20 } };
  const zombie = await openEngine(options);
  await held.reached;
  const successor = await openEngine(options);
  try {
    // As if its lease had ended while it slept: it does not know.
    await bench.store.postgres.query({
      text: `update runledger.work set available_at = clock_timestamp() - interval '1 second' where unit = 's:start@1'`,
    });
    await until(async () =>
      (await bench.store.work.list(ref.runId)).every(({ leaseOwner }) => leaseOwner !== zombie.runtime.worker?.owner),
    );
    held.letGo();
    return await bench.ended(ref);
  } finally {
    held.letGo();
    await zombie.close();
    await successor.close();
  }
}

test('RQ-3.1a a step that two workers have at once takes effect once, and ends once (before its effect was announced)', {
  timeout: 90_000,
}, async () => {
  const file = join(folder, 'before');
  const events = await twoWorkers('effect.before-attempted', file, 30);
  expect(traces(file).length).toBe(1);
  expect(events.at(-1)).toMatchObject({ eventType: 'RunCompleted', payload: { result: { value: 7 } } });
  expect([of(events, 'EffectAttempted').length, of(events, 'StepCompleted').length]).toEqual([1, 1]);
});

test('RQ-3.1a a step that two workers have at once takes effect once, and ends once (after its effect was announced)', {
  timeout: 90_000,
}, async () => {
  const file = join(folder, 'after');
  const events = await twoWorkers('effect.after-attempted', file, 4);
  expect(traces(file).length).toBe(1);
  expect(events.at(-1)).toMatchObject({ eventType: 'RunCompleted', payload: { result: { value: 7 } } });
  // The one that was left found out what the other had done, or that its time had been over before it was sent.
  expect([of(events, 'EffectSucceeded').length, of(events, 'StepCompleted').length]).toEqual([1, 1]);
});

test('an effect that was announced and never sent is announced anew before it is sent, with a time of its own', {
  timeout: 90_000,
}, async () => {
  const file = join(folder, 'anew');
  const ref = await bench.start(
    playbook(`- {step: start, tool: {kind: effect, file: ${file}, result: 7, spec: {timeout: 4}}}`),
    tools,
  );
  const held = holdFirstAt('effect.after-attempted');
  const options = { url: bench.url, tools: engineTools(), artifacts, worker: { pollMs: 20, drainMs: 0 } };
  const first = await openEngine(options);
  await held.reached;
  const stopping = first.close();
  // It has handed its work back, and hears only now that it may go on.
  await until(async () => (await bench.store.work.list(ref.runId)).every(({ leaseOwner }) => leaseOwner === undefined));
  held.letGo();
  await stopping;
  expect(traces(file)).toEqual([]);
  const second = await openEngine(options);
  try {
    const events = await bench.ended(ref);
    expect(traces(file).length).toBe(1);
    const attempts = of(events, 'EffectAttempted');
    expect(attempts.map(({ entity }) => entity)).toEqual(['start/task_0:1@1', 'start/task_0:1@1/try:2']);
    const [one, two] = attempts.map(({ payload }) => Date.parse(String(payload?.['settledBy'])));
    expect(two! - one!).toBeGreaterThan(1000);
    expect(of(events, 'PolicyEffectEvaluated').length).toBe(2);
    expect(of(events, 'EffectSucceeded').map(({ entity }) => entity)).toEqual(['start/task_0:1@1/try:2']);
  } finally {
    await second.close();
  }
});

test('RQ-3.3a a message that a queue delivers to many workers is worked on by the one that has the lease in the database', async () => {
  const ref = await bench.start(playbook('- {step: start, tool: {kind: noop}}'));
  const claims = await Promise.all(
    Array.from({ length: 12 }, (_, i) => bench.store.work.claimUnit(ref.runId, 's:start@1', `worker-${i}`, 60_000)),
  );
  const won = claims.flatMap((claim) => (claim.state === 'claimed' ? [claim.unit] : []));
  expect([won.length, claims.filter(({ state }) => state === 'leased').length]).toEqual([1, 11]);
  // Delivered again later, it is still taken; handed back, the next delivery gets it, with another fence.
  expect(await bench.store.work.claimUnit(ref.runId, 's:start@1', 'again', 1000)).toMatchObject({ state: 'leased' });
  await bench.store.work.release(won);
  const next = await bench.store.work.claimUnit(ref.runId, 's:start@1', 'next', 60_000);
  expect(next).toMatchObject({ state: 'claimed', unit: { deliveries: 2 } });
  expect(next.state === 'claimed' && next.unit.fence > won[0]!.fence).toBe(true);
  expect(await bench.store.work.renew(won, 1000)).toEqual([{ held: false, stop: false }]);
  if (next.state === 'claimed') await bench.store.work.release([next.unit]);
  const worker = await openEngine({ url: bench.url, artifacts });
  await worker.ended(ref);
  await worker.close();
  expect(await bench.store.work.claimUnit(ref.runId, 's:start@1', 'late', 1000)).toEqual({ state: 'gone' });
});

test('a call is not sent when the step was stopped while its attempt was written, and the receipt says that it failed', async () => {
  const file = join(folder, 'stopped');
  const ref = await bench.start(
    playbook(`- {step: start, tool: {kind: effect, file: ${file}, effect: {key: "stopped:1"}}}`),
    tools,
  );
  const held = holdFirstAt('effect.after-attempted');
  const worker = await openEngine({ url: bench.url, tools: engineTools(), artifacts, worker: { pollMs: 20 } });
  try {
    await held.reached;
    await worker.runtime.engine.cancelRun(ref);
    held.letGo();
    expect((await bench.ended(ref)).at(-1)?.eventType).toBe('RunCancelled');
    expect(traces(file)).toEqual([]);
    expect(await bench.store.work.findReceipt('acme', 'stopped:1')).toMatchObject({ status: 'failed' });
  } finally {
    held.letGo();
    await worker.close();
  }
});

test('a write that nobody limited is stopped in the end, so that its receipt can say when it is over', async () => {
  const signals: AbortSignal[] = [];
  const limits: number[] = [];
  const patient = defineTool({
    kind: 'patient',
    input: Type.Object({}),
    effect: 'write',
    run: async (_input, { signal, timeoutMs }) => {
      signals.push(signal);
      limits.push(timeoutMs);
    },
  });
  const own = await openEngine({ url: bench.url, tools: [patient], artifacts });
  try {
    const events = await own.run(playbook('- {step: start, tool: {kind: patient}}'), { tools: { patient: {} } });
    const [attempted] = of(events, 'EffectAttempted');
    expect(limits).toEqual([60_000]);
    const settles = Date.parse(String(attempted?.payload?.['settledBy'])) - Date.parse(attempted!.emittedAt);
    expect(settles).toBeGreaterThan(60_000);
  } finally {
    await own.close();
  }
});

test('RQ-6.1a time-outs, 5xx and rate limits are tried again; a payload that was refused as wrong and a denied action are not', async () => {
  const server = await startServer((request, response) => {
    const path = request.url.slice(1);
    if (path === 'hang') return;
    response.writeHead(Number(path), path === '429' ? { 'retry-after': '0' } : {}).end('{}');
  });
  const denied = { decision: 'deny', policies: ['none'], reason: 'closed' } as const;
  const allowed = { decision: 'allow', policies: ['all'] } as const;
  const own = await openEngine({
    url: bench.url,
    artifacts,
    tools: [noopTool(), new HttpTool()],
    policy: { evaluate: async ({ operation }) => (operation === 'DELETE' ? denied : allowed) },
  });
  const calls = async (path: string, method = 'GET'): Promise<[number, string]> => {
    const before = server.seen.length;
    const events = await own.run(
      playbook(`
- step: start
  spec: {policy: {failure: {retry: {attempts: 3, delay: 0, backoff: none}}}}
  tool: {kind: http, url: "${server.origin}/${path}", method: ${method}, spec: {timeout: ${path === 'hang' ? 0.4 : 20}}}
`),
    );
    const error = events.at(-1)?.payload?.['error'] as { code: string };
    return [server.seen.length - before, error.code];
  };
  try {
    expect(await calls('503')).toEqual([3, '503']);
    expect(await calls('429')).toEqual([3, '429']);
    expect(await calls('hang')).toEqual([3, 'TASK_TIMEOUT']);
    expect(await calls('400')).toEqual([1, '400']);
    expect(await calls('422')).toEqual([1, '422']);
    expect(await calls('200', 'DELETE')).toEqual([0, 'POLICY_DENIED']);
  } finally {
    await own.close();
    await server.close();
  }
});

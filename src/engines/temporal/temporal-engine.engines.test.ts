import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { compiled } from '../../compiler/compile.fixture.ts';
import type { EngineRunRef } from '../../contracts/values.ts';
import { createNativeRuntime } from '../../runtime/create-native-runtime.ts';
import { ENGINE_TOOL_FORMS, engineTools } from '../../testing/engine-tools.ts';
import { memoryArtifacts } from '../../tools/call-context.fixture.ts';
import { noopTool } from '../../tools/noop/noop-tool.ts';
import { playbook, types } from '../test-bench.fixture.ts';
import { of, traces, until } from '../watching.fixture.ts';
import { openTemporalBench, type TemporalBench } from './temporal.fixture.ts';

let bench: TemporalBench;
let connection: Connection;
let client: Client;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'runledger-temporal-'));
  bench = await openTemporalBench({
    leaseMs: 2000,
    temporal: { sweepAfterMs: 600, workflow: { heartbeatMs: 1500, retryMs: 100, handOverMs: 100 } },
    // What these tests break on purpose is said; nobody reads it.
    onError: () => {},
  });
  connection = await Connection.connect({ address: bench.temporal.address });
  client = new Client({ connection, namespace: bench.temporal.namespace });
});
afterAll(async () => {
  await bench?.close();
  await connection?.close();
  rmSync(folder, { recursive: true, force: true });
});

const fresh = (): string => join(folder, randomUUID());

const seen = (ref: EngineRunRef, type: string): Promise<void> =>
  until(async () => types(await bench.store.readEvents(ref.runId)).includes(type));
const handleOf = (ref: EngineRunRef) => client.workflow.getHandle(ref.workflowId);
const isClosed = async (ref: EngineRunRef): Promise<boolean> =>
  (await handleOf(ref).describe()).status.name !== 'RUNNING';

const slow = (file: string, ms: number): string =>
  playbook(`
- {step: start, tool: {kind: probe, file: ${file}, label: one, delay_ms: ${ms}}, next: {arcs: [{step: two}]}}
- {step: two, tool: {kind: probe, file: ${file}, label: two}}
`);

describe('where a run is', () => {
  test('WE-2.1b WE-2.1.3b WE-2.1.1a the reference has its namespace, and the run is found by every id that Temporal gave it', async () => {
    const ref = await bench.start(slow(fresh(), 0));
    expect(ref).toMatchObject({
      provider: 'temporal',
      namespace: bench.temporal.namespace,
      taskQueue: expect.any(String),
    });
    const events = await bench.ended(ref);
    expect(of(events, 'RunStarted')[0]?.payload).toMatchObject({ engineType: 'temporal', engineRunRef: ref });
    const { runId: providerRunId } = await handleOf(ref).describe();
    const found = await bench.store.findRunByProvider({
      provider: 'temporal',
      workflowId: ref.workflowId,
      providerRunId,
    });
    expect(found).toMatchObject({ runId: ref.runId, engine: 'temporal', tenantId: 'acme' });
    const byProvider = { ...ref, runId: 'unknown-here', providerRunId } as EngineRunRef;
    expect(await bench.runtime.engine.getRunStatus(byProvider)).toMatchObject({ runId: ref.runId });
    const { namespace: _gone, ...broken } = ref as EngineRunRef & { namespace: string };
    await expect(bench.runtime.engine.getRunStatus(broken as EngineRunRef)).rejects.toMatchObject({
      code: 'SCHEMA_VALIDATION_FAILED',
    });
  });

  test('workflows are found by tenant, project, environment, plan and run', async () => {
    const ref = await bench.start(slow(fresh(), 0));
    await bench.ended(ref);
    await until(async () => {
      const query = `tenantId = 'acme' AND projectId = 'main' AND environmentId = 'test' AND planId = 'test' AND runId = '${ref.runId}'`;
      for await (const found of client.workflow.list({ query })) return found.workflowId === ref.workflowId;
      return false;
    });
  });

  test('WE-2.1c a native worker on the same database leaves the run alone, and each engine refuses the other one’s runs', async () => {
    const native = createNativeRuntime({
      store: bench.store,
      tools: [noopTool(), ...engineTools()],
      artifacts: memoryArtifacts(),
      worker: { pollMs: 20 },
    });
    try {
      const file = fresh();
      const ref = await bench.start(slow(file, 300));
      const events = await bench.ended(ref);
      const owners = new Set(of(events, 'StepStarted').map((event) => event.payload?.['leaseOwner']));
      expect(owners).toEqual(new Set([bench.runtime.worker?.owner]));
      const wrong = { provider: 'native', workflowId: ref.runId, runId: ref.runId } as const;
      await expect(native.engine.getRunStatus(wrong)).rejects.toMatchObject({ code: 'CAPABILITY_NOT_SUPPORTED' });
      expect(native.engine.name).toBe('native');
    } finally {
      await native.close();
    }
  });
});

describe('what Temporal is told', () => {
  test('WE-1d ES-2a neither the plan, nor a value, nor a secret, nor a message is in the history', async () => {
    const ref = await bench.start(
      playbook(
        `
- step: start
  tool: {kind: noop, result: {note: "marker-of-a-result", given: "{{ workload.given }}"}}
  next: {arcs: [{step: each, args: {passed: marker-of-an-argument}}]}
- step: each
  loop: {in: ["marker-of-an-item", b, c], iterator: item, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: probe, file: ${fresh()}, label: "{{ iter.item }}", result: "marker-of-a-call {{ iter.item }}"}
  next: {arcs: [{step: fails, when: "{{ event.name == 'loop.done' }}"}]}
- step: fails
  tool: {kind: probe, file: ${fresh()}, label: marker-of-a-label, fail: 9}
`,
      ),
      { workload: { given: 'marker-of-the-workload' } },
    );
    const events = await bench.ended(ref);
    expect(events.at(-1)?.eventType).toBe('RunFailed');
    await until(() => isClosed(ref));
    const description = await handleOf(ref).describe();
    const history = JSON.stringify(decoded(await handleOf(ref).fetchHistory()));
    // It is there, and readable: the units are named.
    expect(history).toContain('s:start@1');
    expect(history).toContain('i:each@1/0');
    expect(`${history}${JSON.stringify(description.memo ?? {})}`).not.toMatch(
      /marker-of|noop|probe|iter\.item|call 1 fails/,
    );
  });

  test('ES-6e what enters the history stays small, however large the values of the run are', async () => {
    const ref = await bench.start(
      playbook(`
- {step: start, tool: {kind: noop, result: "{{ range(30000) | list }}"}, next: {arcs: [{step: size}]}}
- {step: size, tool: {kind: noop, result: "{{ start | length }}"}}
`),
    );
    const events = await bench.ended(ref);
    expect(events.at(-1)?.payload?.['result']).toEqual({ value: 30_000 });
    await until(() => isClosed(ref));
    const { historySize } = await handleOf(ref).describe();
    expect(historySize).toBeLessThan(20_000);
  });

  test('a server that is not there refuses the start before a run is made', async () => {
    const planRef = await bench.runtime.plans.keep(planOf(slow(fresh(), 0)));
    const nowhere = await openTemporalBench({
      url: bench.url,
      worker: false,
      temporal: { address: '127.0.0.1:1', callTimeoutMs: 500 },
    });
    try {
      const runId = randomUUID();
      await expect(nowhere.runtime.engine.startRun(planRef, contextOf(runId))).rejects.toMatchObject({
        code: 'ENGINE_UNAVAILABLE',
      });
      expect(await bench.store.findRun(runId)).toBeUndefined();
    } finally {
      await nowhere.close();
    }
  });
});

describe('signals', () => {
  test('ES-6c RETRY_STEP and SKIP_STEP do on Temporal what they do anywhere', async () => {
    const file = fresh();
    const ref = await bench.start(
      playbook(`
- step: start
  spec: {policy: {failure: {retry: {attempts: 2, delay: 600}}}}
  tool: {kind: probe, file: ${file}, fail: 1}
  next: {arcs: [{step: two}]}
- {step: two, tool: {kind: noop, result: done}}
`),
    );
    await seen(ref, 'StepDelayed');
    expect(await bench.runtime.engine.getRunStatus(ref)).toMatchObject({ status: 'RUNNING', substatus: 'RETRYING' });
    const skip = { signalId: 'skip', type: 'SKIP_STEP', stepId: 'start' };
    expect(await bench.runtime.engine.signal(ref, skip)).toEqual({ accepted: true });
    const events = await bench.ended(ref);
    expect(of(events, 'StepSkipped').map((event) => event.stepId)).toContain('start');
    expect(traces(file).length).toBe(1);
  });

  test('WE-1f cancelling the workflow in Temporal cancels the run, and its log says so', async () => {
    const file = fresh();
    const ref = await bench.start(slow(file, 20_000));
    await seen(ref, 'TaskStarted');
    await handleOf(ref).cancel();
    const events = await bench.ended(ref);
    expect(events.at(-1)?.eventType).toBe('RunCancelled');
    expect(of(events, 'SignalAccepted')[0]?.payload).toMatchObject({ signalType: 'CANCEL', by: 'temporal' });
    expect(of(events, 'StepFailed')[0]?.payload?.['error']).toMatchObject({ code: 'CANCELLED' });
    await until(() => isClosed(ref));
    expect((await handleOf(ref).describe()).status.name).toBe('COMPLETED');
  });

  test('WE-2.1.1a ten of the same signal are one, and the workflow answers them all with few looks', async () => {
    const file = fresh();
    const ref = await bench.start(slow(file, 8000));
    await seen(ref, 'TaskStarted');
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => bench.runtime.engine.signal(ref, { signalId: 'p', type: 'PAUSE' })),
    );
    expect(answers).toEqual(Array.from({ length: 10 }, () => ({ accepted: true })));
    expect(await bench.runtime.engine.getRunStatus(ref)).toMatchObject({ status: 'PAUSED', substatus: 'DRAINING' });
    await bench.runtime.engine.signal(ref, { signalId: 'r', type: 'RESUME' });
    const events = await bench.ended(ref);
    expect(of(events, 'RunPaused').length).toBe(1);
    expect(of(events, 'SignalAccepted').length).toBe(2);
    const { events: history } = await handleOf(ref).fetchHistory();
    const looks = (history ?? []).filter(
      (event) => event.activityTaskScheduledEventAttributes?.activityType?.name === 'look',
    );
    expect(looks.length).toBeLessThanOrEqual(6);
  });
});

describe('what is lost', () => {
  test('WE-1c a workflow that Temporal has lost is started again from the log, and no completed step is repeated', async () => {
    const file = fresh();
    const ref = await bench.start(slow(file, 1500));
    await until(() => traces(file).length === 1);
    await handleOf(ref).terminate('as if the server had forgotten it');
    expect(await bench.runtime.engine.getRunStatus(ref)).toMatchObject({ status: 'RUNNING' });
    const events = await bench.ended(ref);
    expect(events.at(-1)?.eventType).toBe('RunCompleted');
    // The call that was under way held its lease, and nobody made it twice.
    expect(traces(file).map((line) => line.split(' ')[0])).toEqual(['one', 'two']);
  });

  test('WE-1c a run whose start did not reach Temporal is found by a worker', async () => {
    const planRef = await bench.runtime.plans.keep(planOf(slow(fresh(), 0)));
    const errors: string[] = [];
    const other = await openTemporalBench({
      url: bench.url,
      worker: false,
      temporal: bench.temporal,
      onError: (_error, what) => errors.push(what),
    });
    try {
      await bench.ended(await other.runtime.engine.startRun(planRef, contextOf(randomUUID())));
      await other.runtime.close();
      const ref = await other.runtime.engine.startRun(planRef, contextOf(randomUUID()));
      expect(errors).toEqual([`start of ${ref.runId}`]);
      expect((await bench.ended(ref)).at(-1)?.eventType).toBe('RunCompleted');
    } finally {
      await other.store.close();
    }
  });
});

const contextOf = (runId: string) =>
  ({ tenantId: 'acme', projectId: 'main', environmentId: 'test', runId, targetAdapter: 'temporal' }) as const;

const planOf = (text: string) => compiled(text, { tools: ENGINE_TOOL_FORMS });

/** A history with its payloads as text, as anybody who may read it sees it. */
function decoded(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('utf8');
  if (Array.isArray(value)) return value.map(decoded);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, decoded(inner)]));
}

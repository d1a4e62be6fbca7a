import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { LedgerRecord } from '../../contracts/envelope.ts';
import { idempotencyKey } from '../../lib/idempotency-key.ts';
import { folderArtifacts } from '../native/folder-artifacts.fixture.ts';
import { playbook, types } from '../test-bench.fixture.ts';
import { of, traces, until } from '../watching.fixture.ts';
import { spawnTemporalWorker } from './spawn-temporal-worker.fixture.ts';
import { openTemporalBench, type TemporalBench } from './temporal.fixture.ts';

let bench: TemporalBench;
let folder: string;
let connection: Connection;
let client: Client;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'runledger-attempts-'));
  const temporal = { sweepAfterMs: 20_000, workflow: { heartbeatMs: 3000, retryMs: 100 } };
  bench = await openTemporalBench({ artifacts: folderArtifacts(folder), worker: false, temporal });
  connection = await Connection.connect({ address: bench.temporal.address });
  client = new Client({ connection, namespace: bench.temporal.namespace });
});
afterAll(async () => {
  await bench?.close();
  await connection?.close();
  rmSync(folder, { recursive: true, force: true });
});

const spawn = (kill?: { point: string; at: number }) =>
  spawnTemporalWorker(bench.url, folder, { temporal: bench.temporal, leaseMs: 1500, ...(kill ? { kill } : {}) });

const V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** Every event once under its key, with an id of its own that nothing gave away. */
function expectSound(events: readonly LedgerRecord[]): void {
  const keys = events.map((event) => idempotencyKey(event));
  expect(keys).toEqual(events.map((event) => event.idempotencyKey));
  expect(new Set(keys).size).toBe(events.length);
  expect(new Set(events.map((event) => event.eventId)).size).toBe(events.length);
  expect(events.filter((event) => !V4.test(event.eventId))).toEqual([]);
}

const effect = (file: string): string =>
  playbook(`
- {step: start, tool: {kind: noop, result: 1}, next: {arcs: [{step: pay}]}}
- {step: pay, tool: {kind: effect, file: ${file}, result: {id: 7}, spec: {timeout: 3}}, next: {arcs: [{step: last}]}}
- {step: last, tool: {kind: noop, result: "{{ pay.id }}"}}
`);

describe('a worker that is killed', () => {
  test.each([
    ['temporal.after-claim', 1],
    ['effect.after-call', 1],
    ['commit.before', 2],
    ['commit.after', 2],
  ])(
    'ES-1.3a RE-2.4a RE-2.5a RE-2.5b RE-2.5c RE-2.5d WE-1g at %s %i loses nothing, and nothing happens twice',
    async (point, at) => {
      const file = join(folder, randomUUID());
      const doomed = await spawn({ point, at });
      const ref = await bench.start(effect(file));
      await doomed.gone;
      const heir = await spawn();
      try {
        const events = await bench.ended(ref);
        expect(events.at(-1)).toMatchObject({ eventType: 'RunCompleted', payload: { result: { value: 7 } } });
        expect(traces(file).length).toBe(1);
        expect(of(events, 'EffectAttempted').length).toBeLessThanOrEqual(2);
        expectSound(events);
        // The platform tried again, the plan did not.
        expect(new Set(events.map((event) => event.logicalAttemptId))).toEqual(new Set([1]));
        expect(Math.min(...events.map((event) => event.engineAttemptId))).toBe(1);
        if (point === 'commit.after') return;
        // What the first attempt began was ended by another one.
        const attempts = of(events, 'StepCompleted').map((event) => event.engineAttemptId);
        expect(Math.max(...attempts)).toBeGreaterThanOrEqual(2);
      } finally {
        await heir.stop();
      }
    },
  );

  test('WE-2.1.2c RECOVERING while the unit of a dead worker waits for its next attempt', async () => {
    const file = join(folder, randomUUID());
    const doomed = await spawn({ point: 'commit.before', at: 1 });
    const ref = await bench.start(effect(file));
    await doomed.gone;
    await until(async () => (await bench.runtime.engine.getRunStatus(ref)).substatus === 'RECOVERING');
    expect(await bench.runtime.engine.getRunStatus(ref)).toMatchObject({ status: 'RUNNING', substatus: 'RECOVERING' });
    const heir = await spawn();
    try {
      await bench.ended(ref);
      expect((await bench.runtime.engine.getRunStatus(ref)).substatus).toBeUndefined();
    } finally {
      await heir.stop();
    }
  });
});

describe('continue-as-new', () => {
  test('ES-6d WE-2.1.3b ES-1.3a a run goes on through many executions, each of which leads to it, with no event lost or doubled', async () => {
    const temporal = { ...bench.temporal, workflow: { maxEvents: 20, handOverMs: 20 } };
    const own = await openTemporalBench({ url: bench.url, artifacts: folderArtifacts(folder), temporal });
    try {
      const file = join(folder, randomUUID());
      const ref = await own.start(
        playbook(`
- {step: start, tool: {kind: noop, result: 3}, next: {arcs: [{step: each}]}}
- step: each
  loop: {in: "{{ range(25) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 3}}
  tool: {kind: probe, file: ${file}, label: "{{ iter.n }}", delay_ms: 30}
  next: {arcs: [{step: wait, when: "{{ event.name == 'loop.done' }}"}]}
- step: wait
  spec: {policy: {failure: {retry: {attempts: 2, delay: 0.3}}}}
  tool: {kind: probe, file: ${file}, label: wait, fail: 1}
  next: {arcs: [{step: last}]}
- {step: last, tool: {kind: noop, result: "{{ each.count }}"}}
`),
      );
      const events = await own.ended(ref);
      expect(events.at(-1)).toMatchObject({ eventType: 'RunCompleted', payload: { result: { value: 25 } } });
      expectSound(events);
      expect(traces(file).length).toBe(27);
      expect(new Set(of(events, 'LoopIterationDone').map((event) => event.entity)).size).toBe(25);
      // Run events carry the ordinal of the execution that stored them.
      expect(of(events, 'RunStarted')[0]?.engineAttemptId).toBe(1);
      const last = events.at(-1)!.engineAttemptId;
      expect(last).toBeGreaterThan(3);
      const { searchAttributes } = await client.workflow.getHandle(ref.workflowId).describe();
      expect(searchAttributes).toMatchObject({ runId: [ref.runId], tenantId: ['acme'] });
      const ids = await chainOf(ref.workflowId);
      expect(ids.length).toBeGreaterThanOrEqual(last);
      for (const providerRunId of ids) {
        const found = await own.store.findRunByProvider({
          provider: 'temporal',
          workflowId: ref.workflowId,
          providerRunId,
        });
        expect(found?.runId).toBe(ref.runId);
      }
    } finally {
      await own.close();
    }
  });

  test('ES-6d WE-2.1.2c a call in flight is not disturbed by the change of executions, and the substatus says CONTINUE_AS_NEW', async () => {
    const temporal = { ...bench.temporal, workflow: { maxEvents: 14, handOverMs: 6000 } };
    const own = await openTemporalBench({
      url: bench.url,
      artifacts: folderArtifacts(folder),
      temporal,
      leaseMs: 1500,
    });
    try {
      const file = join(folder, randomUUID());
      const ref = await own.start(
        playbook(`
- step: start
  tool: {kind: noop, result: 1}
  next: {spec: {mode: inclusive}, arcs: [{step: long}, {step: a}]}
- {step: long, tool: {kind: probe, file: ${file}, label: long, delay_ms: 10000}}
- {step: a, tool: {kind: noop}, next: {arcs: [{step: b}]}}
- {step: b, tool: {kind: noop}, next: {arcs: [{step: c}]}}
- {step: c, tool: {kind: noop}, next: {arcs: [{step: d}]}}
- {step: d, tool: {kind: noop}}
`),
      );
      const words = new Set<string | undefined>();
      await until(async () => {
        const { status, substatus } = await own.runtime.engine.getRunStatus(ref);
        words.add(substatus);
        return status === 'COMPLETED';
      });
      const events = await own.ended(ref);
      expect(words).toContain('CONTINUE_AS_NEW');
      expect(traces(file).length).toBe(1);
      expectSound(events);
      expect(types(events)).not.toContain('StepFailed');
      expect((await chainOf(ref.workflowId)).length).toBeGreaterThan(1);
    } finally {
      await own.close();
    }
  });
});

/** The ids of all executions of a workflow, by going back from the last one. */
async function chainOf(workflowId: string): Promise<string[]> {
  const ids: string[] = [];
  let runId: string | undefined = (await client.workflow.getHandle(workflowId).describe()).runId;
  while (runId) {
    ids.push(runId);
    runId = await beforeOf(workflowId, runId);
  }
  return ids;
}

async function beforeOf(workflowId: string, runId: string): Promise<string | undefined> {
  const { events } = await client.workflow.getHandle(workflowId, runId).fetchHistory();
  return events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId || undefined;
}

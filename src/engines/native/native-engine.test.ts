import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Type from 'typebox';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { AppError } from '../../contracts/errors.ts';
import type { EngineRunRef } from '../../contracts/values.ts';
import { ENGINE_TOOL_FORMS, engineTools } from '../../testing/engine-tools.ts';
import { defineTool } from '../../tools/define-tool.ts';
import { noopTool } from '../../tools/noop/noop-tool.ts';
import type { EffectAction, PolicyDecision } from '../../worker/ports.ts';
import { playbook, types } from '../test-bench.fixture.ts';
import { of, traces, until } from '../watching.fixture.ts';
import { type EngineBench, openEngine } from './native.fixture.ts';

let bench: EngineBench;
let folder: string;
const judged: EffectAction[] = [];
let verdict: PolicyDecision = { decision: 'allow', policies: ['p1'] };

/** Gives back what it was handed, secrets included. */
const leaky = defineTool({
  kind: 'leaky',
  input: Type.Object({ auth: Type.String(), text: Type.Optional(Type.String()) }),
  effect: 'read',
  run: async ({ auth, text }, context) => {
    const secret = (await context.secret(auth)) as string;
    context.log('stdout', `the secret is ${secret}`);
    return { echoed: `Bearer ${secret}`, text: text ?? '' };
  },
});

const logged: string[] = [];
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'runledger-engine-'));
  bench = await openEngine({
    tools: [noopTool(), ...engineTools(), leaky],
    secrets: {
      resolve: async (name, { tenantId, environmentId }) => {
        if (name !== 'token') throw new AppError('SECRET_NOT_FOUND', `there is no secret '${name}'`);
        return `s3cr3t-${tenantId}-${environmentId}`;
      },
    },
    policy: {
      evaluate: async (action) => {
        judged.push(action);
        return verdict;
      },
    },
    log: ({ line }) => logged.push(line),
    cancelGraceMs: 300,
  });
});
afterAll(async () => {
  await bench?.close();
  rmSync(folder, { recursive: true, force: true });
});

const fresh = (): string => join(folder, randomUUID());
const tools = { tools: { ...ENGINE_TOOL_FORMS, leaky: {} } };
const has = async (runId: string, type: string): Promise<boolean> =>
  types(await bench.store.readEvents(runId)).includes(type);

test('WE-1a a no-op step writes six events', async () => {
  const events = await bench.run(
    playbook(`
- {step: start, tool: {kind: noop, result: {n: 1}}, next: {arcs: [{step: two}]}}
- {step: two, tool: {kind: noop, result: "{{ start.n + 1 }}"}}
`),
  );
  const step = ['StepStarted', 'TaskStarted', 'TaskDone', 'StepCompleted', 'NextEvaluated'];
  expect(types(events)).toEqual([
    'PlaybookExecutionRequested',
    'PlaybookRequestEvaluated',
    'RunStarted',
    'StepScheduled',
    ...step,
    'StepScheduled',
    ...step,
    'RunCompleted',
  ]);
  expect(events.at(-1)?.payload?.['result']).toEqual({ value: 2 });
  expect(of(events, 'RunStarted')[0]?.payload?.['validationReport']).toMatchObject({ status: 'VALID' });
});

test.each(['start', 'two'])(
  'what the log cannot take fails its step instead of being delivered for ever (%s)',
  async (at) => {
    const set = (step: string): string => (step === at ? `set: {ctx.big: "{{ range(60000) | list }}"},` : '');
    const events = await bench.run(
      playbook(`
- {step: start, tool: {kind: noop, result: 1}, ${set('start')} next: {arcs: [{step: two, when: "{{ event.name == 'step.done' }}"}]}}
- {step: two, tool: {kind: noop, result: 2}, ${set('two')} next: {arcs: []}}
`),
    );
    expect(events.at(-1)).toMatchObject({
      eventType: 'RunFailed',
      payload: { rootCause: { stepId: at, error: { code: 'EVENT_TOO_LARGE' } } },
    });
  },
);

test('an iteration whose result the log cannot take fails, and the loop with it', async () => {
  const events = await bench.run(
    playbook(`
- step: start
  loop: {in: "{{ [1, 2] }}", iterator: n, spec: {mode: sequential}}
  tool: {kind: noop, result: "{{ range(60000) | list }}", spec: {result: {inline_max_bytes: 10000000}}}
`),
  );
  expect(events.at(-1)).toMatchObject({
    eventType: 'RunFailed',
    payload: { error: { code: 'LOOP_ITERATIONS_FAILED' } },
  });
});

describe('secrets', () => {
  test('ES-2a ES-2b a secret is resolved on the worker, by tenant and environment, and leaves it nowhere', async () => {
    const events = await bench.run(
      playbook(
        `- {step: start, tool: {kind: leaky, auth: token, text: "{{ keychain.api }}"}}`,
        `keychain: [{name: api, kind: credential, credential: token}]\n`,
      ),
      tools,
    );
    expect(types(events)).toContain('RunCompleted');
    expect(JSON.stringify(events)).not.toContain('s3cr3t');
    expect(events.at(-1)?.payload?.['result']).toEqual({ value: { echoed: 'Bearer [redacted]', text: '[redacted]' } });
    expect(logged).toEqual(['the secret is [redacted]']);
  });

  test('a secret that is not there fails the task with its code', async () => {
    const events = await bench.run(playbook(`- {step: start, tool: {kind: leaky, auth: nothing}}`), tools);
    expect(events.at(-1)?.payload?.['error']).toMatchObject({ code: 'SECRET_NOT_FOUND' });
  });
});

describe('effects', () => {
  test('the action that a policy judges names fields and never their values; a denial fails step and run and calls nothing', async () => {
    const file = fresh();
    judged.length = 0;
    verdict = { decision: 'deny', policies: ['no-writes'], reason: 'Writes are closed.' };
    const events = await bench.run(
      playbook(`
- {step: start, tool: {kind: effect, file: ${file}}, next: {arcs: [{step: never}]}}
- {step: never, tool: {kind: noop}}
`),
      tools,
    );
    verdict = { decision: 'allow', policies: ['p1'] };
    expect(traces(file)).toEqual([]);
    expect(events.at(-1)).toMatchObject({ eventType: 'RunFailed', payload: { error: { code: 'POLICY_DENIED' } } });
    expect(of(events, 'StepStarted').length).toBe(1);
    expect(judged[0]).toMatchObject({
      connector: 'effect',
      fields: ['file'],
      tier: 'med',
      digest: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    expect(of(events, 'PolicyEffectEvaluated')[0]?.payload).toMatchObject({
      decision: 'deny',
      policies: ['no-writes'],
    });
  });

  test('a write waits behind a pause until the run resumes', async () => {
    const file = fresh();
    const ref = await bench.start(
      playbook(`
- step: start
  tool:
    - {name: slow, kind: probe, file: ${file}, label: slow, delay_ms: 400}
    - {name: write, kind: effect, file: ${file}, label: write}
`),
      tools,
    );
    await until(() => traces(file).length === 1);
    await bench.runtime.engine.signal(ref, { signalId: 'p', type: 'PAUSE' });
    await until(() => has(ref.runId, 'WaitStarted'));
    expect(traces(file).length).toBe(1);
    await bench.runtime.engine.signal(ref, { signalId: 'r', type: 'RESUME' });
    const events = await bench.ended(ref);
    expect(events.at(-1)?.eventType).toBe('RunCompleted');
    expect(traces(file).map((line) => line.split(' ')[0])).toEqual(['slow', 'write']);
    // ES-1.3a: it was taken twice, and a wait in between does not begin to count anew.
    const attempts = (type: string): number[] => of(events, type).map((event) => event.engineAttemptId);
    expect([attempts('StepStarted'), attempts('WaitStarted'), attempts('StepCompleted')]).toEqual([[1], [1], [2]]);
    expect(new Set(attempts('EffectAttempted'))).toEqual(new Set([2]));
  });

  /** A run whose write waits for a person: an earlier run attempted it and was never heard of again. */
  async function waitingRun(file: string): Promise<EngineRunRef> {
    const key = `blind:${randomUUID()}`;
    const other = await bench.start(playbook('- {step: start, tool: {kind: noop}}'));
    await bench.ended(other);
    await markAttempted(other.runId, key);
    const ref = await bench.start(
      playbook(`- {step: start, tool: {kind: blind_effect, file: ${file}, effect: {key: "${key}"}}}`),
      tools,
    );
    await until(() => has(ref.runId, 'WaitStarted'));
    return ref;
  }

  test('an effect whose outcome was lost and cannot be asked for waits for a person', async () => {
    const file = fresh();
    const ref = await waitingRun(file);
    const events = await bench.store.readEvents(ref.runId);
    expect(of(events, 'EffectUnknown').length).toBe(1);
    expect(of(events, 'WaitStarted')[0]?.payload).toMatchObject({
      kind: 'approval',
      details: { reason: 'EFFECT_UNKNOWN' },
    });
    expect(traces(file)).toEqual([]);
    await bench.runtime.engine.cancelRun(ref);
    await bench.ended(ref);
    await expect(bench.runtime.engine.settle(ref, { answer: 'happened' })).rejects.toMatchObject({
      code: 'NOTHING_TO_SETTLE',
    });
  });

  test('a person who says that it happened gives its result, and nothing is sent', async () => {
    const file = fresh();
    const ref = await waitingRun(file);
    const { engine } = bench.runtime;
    await expect(engine.settle(ref, { answer: 'happened', step: 'other' })).rejects.toMatchObject({
      code: 'NOTHING_TO_SETTLE',
    });
    await expect(engine.settle(ref, { answer: 'give-up', result: 1 })).rejects.toMatchObject({ code: 'USAGE' });
    const told = { answer: 'happened', result: { id: 7 }, by: 'ann', reason: 'it is in the list' } as const;
    expect(await engine.settle(ref, told)).toEqual({ step: 'start' });
    await expect(engine.settle(ref, told)).rejects.toMatchObject({ code: 'NOTHING_TO_SETTLE' });
    const events = await bench.ended(ref);
    expect(events.at(-1)).toMatchObject({ eventType: 'RunCompleted', payload: { result: { value: { id: 7 } } } });
    expect(of(events, 'EffectSucceeded')[0]?.payload).toMatchObject({
      reconciled: true,
      by: 'ann',
      reason: 'it is in the list',
      result: { value: { id: 7 } },
    });
    expect(traces(file)).toEqual([]);
  });

  test('a person who says that it is to be sent again has it sent once', async () => {
    const file = fresh();
    const ref = await waitingRun(file);
    await bench.runtime.engine.settle(ref, { answer: 'send-again', step: 'start' });
    expect((await bench.ended(ref)).at(-1)?.eventType).toBe('RunCompleted');
    expect(traces(file).length).toBe(1);
  });

  test('a person who gives it up has the step fail', async () => {
    const file = fresh();
    const ref = await waitingRun(file);
    await bench.runtime.engine.settle(ref, { answer: 'give-up' });
    const events = await bench.ended(ref);
    expect(events.at(-1)).toMatchObject({ eventType: 'RunFailed', payload: { error: { code: 'APPROVAL_REJECTED' } } });
    expect(traces(file)).toEqual([]);
  });
});

/** The row that a worker leaves which died between announcing and telling. */
async function markAttempted(runId: string, key: string): Promise<void> {
  const { runKey } = (await bench.store.findRun(runId))!;
  await bench.store.postgres.query(
    {
      name: 'mark_attempted',
      text: `insert into runledger.receipts (tenant_id, effect_key, run_key, path, status, settled_by, details)
             values ('acme', $1, $2, 'x/y:1', 'attempted', clock_timestamp() - interval '1 second', '{}')`,
    },
    [key, runKey],
  );
}

describe('signals of steps', () => {
  test('SKIP_STEP ends an attempt that waits for its retry, and is refused for one that runs', async () => {
    const file = fresh();
    const ref = await bench.start(
      playbook(`
- step: start
  spec: {policy: {failure: {retry: {attempts: 3, delay: 60, backoff: fixed}}}}
  tool: {kind: probe, file: ${file}, fail: 1}
  next: {arcs: [{step: after, when: "{{ event.name == 'step.skipped' }}"}]}
- {step: after, tool: {kind: probe, file: ${file}, label: after, delay_ms: 300}}
`),
      tools,
    );
    await until(() => has(ref.runId, 'StepDelayed'));
    const { engine } = bench.runtime;
    expect(await engine.signal(ref, { signalId: 's1', type: 'SKIP_STEP', stepId: 'start' })).toEqual({
      accepted: true,
    });
    await until(async () => of(await bench.store.readEvents(ref.runId), 'TaskStarted').length === 2);
    expect(await engine.signal(ref, { signalId: 's2', type: 'SKIP_STEP', stepId: 'after' })).toMatchObject({
      accepted: false,
    });
    const events = await bench.ended(ref);
    expect(events.at(-1)?.eventType).toBe('RunCompleted');
  });

  test('RETRY_STEP gives a failed step another attempt while the run has not ended', async () => {
    const file = fresh();
    const stubborn = defineTool({ kind: 'stubborn', input: Type.Object({}), effect: 'read', run: () => sleep(900) });
    const own = await openEngine({ tools: [noopTool(), ...engineTools(), stubborn], url: bench.url });
    try {
      const ref = await own.start(
        playbook(`
- {step: start, tool: {kind: noop}, next: {spec: {mode: inclusive}, arcs: [{step: bad}, {step: slow}]}}
- {step: bad, tool: {kind: probe, file: ${file}, label: bad, fail: 1, delay_ms: 300}}
- {step: slow, tool: {kind: stubborn}}
`),
        { tools: { ...ENGINE_TOOL_FORMS, stubborn: {} } },
      );
      await until(() => has(ref.runId, 'StepFailed'));
      const answer = await own.runtime.engine.signal(ref, { signalId: 'again', type: 'RETRY_STEP', stepId: 'bad' });
      const events = await own.ended(ref);
      expect([answer.accepted, events.at(-1)?.eventType]).toEqual([true, 'RunCompleted']);
      const bad = of(events, 'StepStarted').filter((event) => event.stepId === 'bad');
      expect(bad.map((event) => event.logicalAttemptId)).toEqual([1, 2]);
    } finally {
      await own.close();
    }
  });

  test('a step that ignores its abort is ended by the log when the grace is over', async () => {
    const stubborn = defineTool({
      kind: 'stubborn',
      input: Type.Object({}),
      effect: 'read',
      run: () => sleep(3000),
    });
    const own = await openEngine({ tools: [stubborn], cancelGraceMs: 200, url: bench.url, worker: { drainMs: 100 } });
    try {
      const ref = await own.start(playbook('- {step: start, tool: {kind: stubborn}}'), { tools: { stubborn: {} } });
      await until(() => has(ref.runId, 'TaskStarted'));
      const from = Date.now();
      await own.runtime.engine.cancelRun(ref);
      const events = await own.ended(ref);
      expect(events.at(-1)?.eventType).toBe('RunCancelled');
      expect(Date.now() - from).toBeLessThan(2500);
    } finally {
      await own.close();
    }
  });
});

describe('retry of a run', () => {
  test('a linked retry keeps what was completed, runs the rest, and finds the effects of the first run', async () => {
    const file = fresh();
    const text = playbook(`
- {step: start, tool: {kind: effect, file: ${file}, label: paid, result: 3}, next: {arcs: [{step: many}]}}
- step: many
  loop: {in: "{{ [1, 2, 3, 4] }}", iterator: n, spec: {mode: sequential}}
  tool: {kind: probe, file: ${file}, label: "n{{ iter.n }}", fail: "{{ 1 if iter.n == 3 else 0 }}", result: "{{ iter.n }}"}
  next: {arcs: [{step: sum, when: "{{ event.name == 'loop.done' }}"}]}
- {step: sum, tool: {kind: noop, result: "{{ start + (many | sum) }}"}}
`);
    const ref = await bench.start(text, tools);
    expect((await bench.ended(ref)).at(-1)?.eventType).toBe('RunFailed');
    const again = await bench.runtime.engine.retryRun(ref);
    const events = await bench.ended(again);
    expect(events.at(-1)).toMatchObject({ eventType: 'RunCompleted', payload: { result: { value: 13 } } });
    expect(events[0]?.payload).toMatchObject({ retryOf: ref.runId });
    expect(traces(file).map((line) => line.split(' ')[0])).toEqual(['paid', 'n1', 'n2', 'n3', 'n3', 'n4']);
    expect((await bench.store.findRun(again.runId))?.retryOf).toBe(ref.runId);
  });
});

describe('work rows', () => {
  test('lost rows are made again from the log, and the run goes on', async () => {
    const engine = await openEngine({ url: bench.url, tools: [noopTool(), ...engineTools()], worker: false });
    try {
      const text = playbook(`
- step: start
  loop: {in: "{{ range(6) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: noop, result: "{{ iter.n }}"}
`);
      const ref = await engine.start(text);
      const claimed = await engine.store.work.claim('thief', { limit: 100, leaseMs: 60_000 });
      expect(claimed.map((unit) => unit.runId)).toContain(ref.runId);
      await engine.store.postgres.query({ name: 'lose_work', text: 'delete from runledger.work' }, []);
      expect(await engine.runtime.engine.repair(ref.runId)).toBe(1);
      expect(await engine.runtime.engine.repair(ref.runId)).toBe(0);
    } finally {
      await engine.close();
    }
    await until(async () => (await bench.store.work.claim('nobody', { limit: 1, leaseMs: 1 })).length === 0);
  });

  test('a stopping worker hands its units back at once, and another one finishes them', async () => {
    const file = fresh();
    const first = await openEngine({ tools: engineTools(), worker: { drainMs: 50 } });
    const second = await openEngine({ url: first.url, tools: engineTools(), worker: false });
    try {
      const ref = await first.start(
        playbook(`- {step: start, tool: {kind: probe, file: ${file}, delay_ms: 400}}`),
        tools,
      );
      await until(() => traces(file).length === 1);
      const from = Date.now();
      await first.runtime.close();
      const [row] = await second.store.work.list(ref.runId);
      expect(row?.leaseOwner).toBeUndefined();
      expect(Date.now() - from).toBeLessThan(2000);
      const third = await openEngine({ url: first.url, tools: engineTools() });
      const events = await third.ended(ref);
      expect(events.at(-1)?.eventType).toBe('RunCompleted');
      // ES-1.3a: the same logical attempt, delivered again.
      expect(of(events, 'StepStarted').map((event) => event.logicalAttemptId)).toEqual([1]);
      expect(of(events, 'StepCompleted')[0]?.engineAttemptId).toBeGreaterThan(1);
      await third.close();
    } finally {
      await second.close();
      await first.close();
    }
  });

  test('RQ-3.2a a step that runs longer than its lease keeps it', async () => {
    const file = fresh();
    const slow = await openEngine({ tools: engineTools(), leaseMs: 300 });
    const rival = await openEngine({ url: slow.url, tools: engineTools(), leaseMs: 300, worker: { pollMs: 20 } });
    try {
      const ref = await slow.start(
        playbook(`- {step: start, tool: {kind: probe, file: ${file}, delay_ms: 1500}}`),
        tools,
      );
      const events = await slow.ended(ref);
      expect(traces(file).length).toBe(1);
      expect(of(events, 'StepCompleted')[0]?.engineAttemptId).toBe(1);
    } finally {
      await rival.close();
      await slow.close();
    }
  });
});

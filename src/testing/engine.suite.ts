import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { compileSync, type ResolveSync } from '../compiler/compile.ts';
import type { LedgerRecord } from '../contracts/envelope.ts';
import { isTerminal } from '../contracts/states.ts';
import type { EngineName, EngineRunRef, PlanRef } from '../contracts/values.ts';
import type { Engine, StartOptions } from '../engines/engine.ts';
import { foldWithReport } from '../kernel/evolve.ts';
import { initialState } from '../kernel/state.ts';
import type { Store } from '../store/store.ts';
import { verifyChain } from '../store/verify-chain.ts';
import { ENGINE_TOOL_FORMS } from './engine-tools.ts';

/** An engine that is ready to run plans, with the tools of `engineTools()` and `noop`. */
export interface EngineUnderTest {
  readonly engine: Engine;
  readonly store: Store;
  readonly plans: {
    keep(plan: { readonly json: string; readonly sha256: string; readonly planRef: PlanRef }): Promise<PlanRef>;
  };
  close(): Promise<void>;
}

export interface EngineFactory {
  readonly provider: EngineName;
  open(): Promise<EngineUnderTest>;
}

const SCOPE = { tenantId: 'acme', projectId: 'main', environmentId: 'test' };
const playbook = (workflow: string, more = ''): string =>
  `apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: suite, version: "1"}\n${more}workflow:\n${workflow}`;
const types = (events: readonly LedgerRecord[]): string[] => events.map((event) => event.eventType);
const of = (events: readonly LedgerRecord[], type: string): LedgerRecord[] =>
  events.filter((event) => event.eventType === type);

/** The behaviour that every engine must show. Call it at the top level of a vitest file. */
export function engineSuite(name: string, factory: EngineFactory): void {
  describe(name, () => {
    let under: EngineUnderTest;
    let folder: string;
    beforeAll(async () => {
      folder = mkdtempSync(join(tmpdir(), 'runledger-suite-'));
      under = await factory.open();
    });
    afterAll(async () => {
      await under?.close();
      rmSync(folder, { recursive: true, force: true });
    });

    const fresh = (): string => join(folder, randomUUID());
    const traces = (file: string): string[] => {
      try {
        return readFileSync(file, 'utf8').split('\n').filter(Boolean);
      } catch {
        return [];
      }
    };

    async function keep(text: string, resolve?: ResolveSync): Promise<PlanRef> {
      const compiled = compileSync({ text, file: 'suite.yaml' }, { tools: ENGINE_TOOL_FORMS, resolve });
      if (!compiled.ok) throw new Error(compiled.problems.map((problem) => problem.message).join('\n'));
      for (const child of compiled.children.values()) await under.plans.keep(child);
      return under.plans.keep(compiled);
    }

    async function start(text: string, options: StartOptions = {}, resolve?: ResolveSync): Promise<EngineRunRef> {
      const planRef = await keep(text, resolve);
      const context = { ...SCOPE, runId: randomUUID(), targetAdapter: factory.provider };
      return under.engine.startRun(planRef, context, options);
    }

    async function log(runId: string): Promise<LedgerRecord[]> {
      return under.store.readEvents(runId, { limit: 10_000 });
    }

    /** Waits for the run's end, and for a log that is legal and unbroken. */
    async function ended(ref: EngineRunRef): Promise<LedgerRecord[]> {
      await until(async () => {
        const run = await under.store.findRun(ref.runId);
        return run?.status !== undefined && isTerminal(run.status);
      }, ref);
      const events = await log(ref.runId);
      const { violations } = foldWithReport(initialState(ref.runId, { keepFinished: true }), events);
      expect(violations).toEqual([]);
      expect(verifyChain(events)).toMatchObject({ ok: true });
      return events;
    }

    async function until(holds: () => Promise<boolean>, ref?: EngineRunRef): Promise<void> {
      for (const end = Date.now() + 25_000; !(await holds()); await sleep(10)) {
        if (Date.now() < end) continue;
        const events = ref ? await log(ref.runId) : [];
        throw new Error(`it did not happen: ${types(events).join(' ')}`);
      }
    }

    const run = async (text: string, options?: StartOptions): Promise<LedgerRecord[]> =>
      ended(await start(text, options));
    const seen = (ref: EngineRunRef, type: string): Promise<void> =>
      until(async () => types(await log(ref.runId)).includes(type), ref);
    const lastOf = (events: readonly LedgerRecord[]): LedgerRecord => events.at(-1)!;

    describe('runs', () => {
      test('WE-1a WE-2.1a a plan runs from its reference to its end, and the status comes from the store', async () => {
        const ref = await start(
          playbook(`
- {step: start, tool: {kind: noop, result: {n: 1}}, next: {arcs: [{step: two}]}}
- {step: two, tool: {kind: noop, result: "{{ start.n + workload.plus }}"}}
`),
          { workload: { plus: 41 } },
        );
        expect(ref).toMatchObject({ provider: factory.provider, runId: expect.any(String) });
        const events = await ended(ref);
        expect(lastOf(events).eventType).toBe('RunCompleted');
        expect(lastOf(events).payload?.['result']).toEqual({ value: 42 });
        const status = await under.engine.getRunStatus(ref);
        expect(status).toMatchObject({ runId: ref.runId, status: 'COMPLETED' });
        expect(status.completedAt).toBeDefined();
      });

      test('WE-2.1.2a the status of a run has its times, its substatus and a message; the end only when it has ended', async () => {
        const file = fresh();
        const ref = await start(playbook(`- {step: start, tool: {kind: probe, file: ${file}, delay_ms: 1500}}`));
        // What has just begun is shown within a quarter of a second.
        await seen(ref, 'TaskStarted');
        const running = await under.engine.getRunStatus(ref);
        expect(running).toMatchObject({ runId: ref.runId, status: 'RUNNING', startedAt: expect.stringMatching(/Z$/) });
        expect(running).not.toHaveProperty('completedAt');
        await under.engine.signal(ref, { signalId: 'p', type: 'PAUSE' });
        const paused = await under.engine.getRunStatus(ref);
        expect(paused).toMatchObject({
          status: 'PAUSED',
          substatus: 'DRAINING',
          message: expect.stringContaining('1 in-flight task'),
        });
        expect(paused).not.toHaveProperty('completedAt');
        await seen(ref, 'StepCompleted');
        expect(await under.engine.getRunStatus(ref)).not.toHaveProperty('substatus');
        await under.engine.signal(ref, { signalId: 'r', type: 'RESUME' });
        const events = await ended(ref);
        const status = await under.engine.getRunStatus(ref);
        expect(status).toEqual({
          runId: ref.runId,
          status: 'COMPLETED',
          startedAt: of(events, 'RunStarted')[0]?.payload?.['startedAt'],
          completedAt: lastOf(events).payload?.['completedAt'],
        });
      });

      test('WE-2.1.3a every event carries tenant, project, environment, run and both attempts', async () => {
        const file = fresh();
        const events = await run(
          playbook(`
- step: start
  loop: {in: [1, 2], iterator: n}
  tool: {kind: effect, file: ${file}, label: "{{ n }}"}
  next: {arcs: [{step: last}]}
- {step: last, spec: {policy: {failure: {retry: {attempts: 2, delay: 0}}}}, tool: {kind: probe, file: ${file}, fail: 1}}
`),
        );
        expect(events.length).toBeGreaterThan(20);
        for (const event of events) {
          const { runId } = events[0]!;
          expect(event).toMatchObject({ ...SCOPE, runId });
          expect([event.eventType, event.engineAttemptId >= 1, event.logicalAttemptId >= 1]).toEqual([
            event.eventType,
            true,
            true,
          ]);
        }
      });

      test('NE-D1 exclusive and inclusive arcs, args, a join and ctx', async () => {
        const events = await run(
          playbook(`
- step: start
  tool: {kind: noop, result: 5}
  set: {ctx.base: "{{ start }}"}
  next: {spec: {mode: inclusive}, arcs: [{step: a, args: {n: 1}}, {step: b, args: {n: 2}}, {step: never, when: "{{ false }}"}]}
- {step: a, tool: {kind: noop, result: "{{ args.n + ctx.base }}"}, next: {arcs: [{step: both}]}}
- {step: b, tool: {kind: noop, result: "{{ args.n + ctx.base }}"}, next: {arcs: [{step: both}]}}
- {step: never, tool: {kind: noop}}
- {step: both, join: all, tool: {kind: noop, result: "{{ a * 100 + b }}"}}
`),
        );
        expect(lastOf(events).payload?.['result']).toEqual({ value: 607 });
        expect(
          of(events, 'StepStarted')
            .map((event) => event.stepId)
            .sort(),
        ).toEqual(['a', 'b', 'both', 'start']);
      });

      test('NE-D1 NE-3b task rules: retry until it works, then jump, break and continue as the plan says', async () => {
        const file = fresh();
        const events = await run(
          playbook(`
- step: start
  tool:
    - name: flaky
      kind: probe
      file: ${file}
      fail: 2
      spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 5, backoff: fixed, delay: 0.02}}, {else: {then: {do: continue}}}]}}
    - {name: last, kind: noop, result: "{{ flaky }}"}
`),
        );
        expect(lastOf(events)).toMatchObject({ eventType: 'RunCompleted', payload: { result: { value: 3 } } });
        expect(traces(file).length).toBe(3);
        expect(of(events, 'TaskAttemptFailed').length).toBe(2);
        expect(of(events, 'TaskAttemptDone').length).toBe(1);
        expect(of(events, 'TaskDone').filter((event) => event.entity?.includes('flaky')).length).toBe(1);
      });

      test('a task of the workbook runs where it is used, with the input of its caller', async () => {
        const events = await run(
          playbook(
            `
- step: start
  input: {x: 1}
  tool: {kind: workbook, name: calc, input: {y: 5}}
`,
            'workbook: [{name: calc, tool: {kind: noop, input: {y: null}, result: "{{ [x, y, input.y * 2] }}"}}]\n',
          ),
        );
        expect(lastOf(events).payload?.['result']).toEqual({ value: [1, 5, 10] });
      });

      test('the final step, a loop too, runs after a failure and is not stopped with the rest', async () => {
        const file = fresh();
        const events = await run(
          playbook(
            `
- step: start
  tool: {kind: probe, file: ${file}, fail: 9}
- step: last
  loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: probe, file: ${file}, label: "last{{ n }}", delay_ms: 20}
`,
            'executor: {spec: {final_step: last}}\n',
          ),
        );
        expect(lastOf(events)).toMatchObject({
          eventType: 'RunFailed',
          payload: { rootCause: { stepId: 'start' }, failedSteps: 1 },
        });
        expect(of(events, 'LoopDone')[0]?.payload).toMatchObject({ count: 3, failed: 0 });
        expect(traces(file).length).toBe(4);
      });

      test('WE-1b RQ-6.2a a retry of the whole step comes after its delay, as the next logical attempt', async () => {
        const file = fresh();
        const events = await run(
          playbook(`
- step: start
  spec: {policy: {failure: {retry: {attempts: 3, delay: 0.05, backoff: fixed}}}}
  tool: {kind: probe, file: ${file}, fail: 2}
`),
        );
        expect(lastOf(events).eventType).toBe('RunCompleted');
        expect(of(events, 'StepStarted').map((event) => event.logicalAttemptId)).toEqual([1, 2, 3]);
        expect(of(events, 'StepDelayed').length).toBe(2);
        const [first, second] = of(events, 'StepStarted').map((event) => Date.parse(event.emittedAt));
        expect(second! - first!).toBeGreaterThanOrEqual(49);
      });

      test('a long backoff is a timer in the log, and the step goes on where it was', async () => {
        const file = fresh();
        const events = await run(
          playbook(`
- step: start
  tool:
    - {name: once, kind: probe, file: ${file}, label: once}
    - name: flaky
      kind: probe
      file: ${file}
      label: flaky
      fail: 1
      spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 2, backoff: fixed, delay: 2.2}}]}}
`),
        );
        expect(lastOf(events).eventType).toBe('RunCompleted');
        expect(of(events, 'WaitStarted').map((event) => event.payload?.['kind'])).toEqual(['timer']);
        expect(traces(file).filter((line) => line.startsWith('once')).length).toBe(1);
      });

      test('a failed step fails the run with its root cause, and an arc can catch it', async () => {
        const file = fresh();
        const failed = await run(playbook(`- {step: start, tool: {kind: probe, file: ${file}, fail: 9}}`));
        expect(lastOf(failed)).toMatchObject({
          eventType: 'RunFailed',
          payload: { rootCause: { stepId: 'start', error: { code: 'PROBE' } } },
        });
        const caught = await run(
          playbook(`
- {step: start, tool: {kind: probe, file: ${file}, fail: 9}, next: {arcs: [{step: care, when: "{{ event.name == 'step.failed' }}"}]}}
- {step: care, tool: {kind: noop, result: "{{ start.error.code }}"}}
`),
        );
        expect(lastOf(caught)).toMatchObject({ eventType: 'RunCompleted', payload: { result: { value: 'PROBE' } } });
      });

      test('a call that takes too long ends at its deadline', async () => {
        const file = fresh();
        const events = await run(
          playbook(`- {step: start, tool: {kind: probe, file: ${file}, delay_ms: 20000, spec: {timeout: 0.2}}}`),
        );
        expect(lastOf(events)).toMatchObject({ payload: { error: { code: 'TASK_TIMEOUT' } } });
      });

      test('NE-2c ES-2c a large result is stored outside of the log, and later templates read it', async () => {
        const events = await run(
          playbook(`
- {step: start, tool: {kind: noop, result: "{{ range(20000) | list }}"}, next: {arcs: [{step: sum}]}}
- {step: sum, tool: {kind: noop, result: "{{ start | length }}"}}
`),
        );
        expect(lastOf(events).payload?.['result']).toEqual({ value: 20_000 });
        const [stored] = of(events, 'ResultStored');
        expect(stored?.payload?.['result']).toMatchObject({ ref: { sha256: expect.any(String) } });
        expect(Math.max(...events.map((event) => JSON.stringify(event.payload ?? {}).length))).toBeLessThan(20_000);
      });
    });

    describe('loops', () => {
      test.each(['sequential', 'parallel'])('NE-D1 a %s loop gives its results in index order', async (mode) => {
        const events = await run(
          playbook(`
- step: start
  loop: {in: "{{ range(30) | list }}", iterator: n, spec: {mode: ${mode}, max_in_flight: 4}}
  tool: {kind: noop, result: "{{ iter.n * iter.index }}"}
  next: {arcs: [{step: after, when: "{{ event.name == 'loop.done' }}"}]}
- {step: after, tool: {kind: noop, result: "{{ start.count }}"}}
`),
        );
        const [done] = of(events, 'LoopDone');
        expect(done?.payload?.['result']).toEqual({ value: Array.from({ length: 30 }, (_, i) => i * i) });
        expect(of(events, 'LoopIterationDone').length).toBe(30);
        expect(new Set(of(events, 'LoopIterationScheduled').map((event) => event.entity)).size).toBe(30);
        expect(lastOf(events).payload?.['result']).toEqual({ value: 30 });
      });

      test('a failed iteration stops the loop, and the step fails', async () => {
        const file = fresh();
        const events = await run(
          playbook(`
- step: start
  loop: {in: "{{ range(200) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: probe, file: ${file}, label: "{{ iter.n }}", fail: "{{ 1 if iter.n == 3 else 0 }}"}
`),
        );
        expect(lastOf(events)).toMatchObject({
          eventType: 'RunFailed',
          payload: { error: { code: 'LOOP_ITERATIONS_FAILED' } },
        });
        expect(traces(file).length).toBeLessThan(50);
      });

      test('an empty list is a loop without iterations, and what is no list fails the step', async () => {
        const loop = (list: string): string =>
          playbook(`- {step: start, loop: {in: "${list}", iterator: n}, tool: {kind: noop}}`);
        expect(lastOf(await run(loop('{{ [] }}')))).toMatchObject({
          eventType: 'RunCompleted',
          payload: { result: { value: [] } },
        });
        expect(lastOf(await run(loop('{{ 7 }}')))).toMatchObject({ payload: { error: { code: 'LOOP_NOT_A_LIST' } } });
      });
    });

    describe('signals', () => {
      const slow = (file: string, ms = 300): string =>
        playbook(`
- {step: start, tool: {kind: probe, file: ${file}, label: one, delay_ms: ${ms}}, next: {arcs: [{step: two}]}}
- {step: two, tool: {kind: probe, file: ${file}, label: two}}
`);

      test('ES-6c PAUSE lets the step in flight finish and hands out nothing; RESUME goes on without repeating it', async () => {
        const file = fresh();
        const ref = await start(slow(file));
        await until(async () => traces(file).length === 1);
        expect(await under.engine.signal(ref, { signalId: 'p1', type: 'PAUSE' })).toEqual({ accepted: true });
        expect(await under.engine.getRunStatus(ref)).toMatchObject({ status: 'PAUSED' });
        await seen(ref, 'StepCompleted');
        await sleep(200);
        expect(traces(file).length).toBe(1);
        expect(await under.engine.signal(ref, { signalId: 'r1', type: 'RESUME' })).toEqual({ accepted: true });
        const events = await ended(ref);
        expect(lastOf(events).eventType).toBe('RunCompleted');
        expect(traces(file).map((line) => line.split(' ')[0])).toEqual(['one', 'two']);
      });

      test('WE-1f CANCEL reaches the call in flight, nothing new starts, and the run ends CANCELLED', async () => {
        const file = fresh();
        const ref = await start(slow(file, 20_000));
        await seen(ref, 'TaskStarted');
        const from = Date.now();
        await under.engine.cancelRun(ref);
        const events = await ended(ref);
        expect(Date.now() - from).toBeLessThan(10_000);
        expect(lastOf(events).eventType).toBe('RunCancelled');
        expect(of(events, 'StepFailed')[0]?.payload?.['error']).toMatchObject({ code: 'CANCELLED' });
        expect(traces(file).length).toBe(1);
      });

      test('WE-2.1.1a the same signal twice is one signal, and one that the state does not allow is refused and recorded', async () => {
        const file = fresh();
        const ref = await start(slow(file));
        const signal = { signalId: 'once', type: 'PAUSE' };
        expect(await under.engine.signal(ref, signal)).toEqual({ accepted: true });
        expect(await under.engine.signal(ref, signal)).toEqual({ accepted: true });
        expect(await under.engine.signal(ref, { signalId: 'twice', type: 'PAUSE' })).toMatchObject({ accepted: false });
        await under.engine.signal(ref, { signalId: 'go', type: 'RESUME' });
        const events = await ended(ref);
        expect(of(events, 'RunPaused').length).toBe(1);
        expect(of(events, 'SignalAccepted').length).toBe(2);
        expect(of(events, 'SignalRejected').length).toBe(1);
      });

      test('a cancelled loop ends, and hands out no more iterations', async () => {
        const file = fresh();
        const ref = await start(
          playbook(`
- step: start
  loop: {in: "{{ range(1000) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 3}}
  tool: {kind: probe, file: ${file}, label: "{{ iter.n }}", delay_ms: 30}
`),
        );
        await until(async () => traces(file).length > 5);
        await under.engine.cancelRun(ref);
        const events = await ended(ref);
        expect(lastOf(events).eventType).toBe('RunCancelled');
        expect(traces(file).length).toBeLessThan(500);
      });

      test('a loop that was paused goes on where it was', async () => {
        const file = fresh();
        const ref = await start(
          playbook(`
- step: start
  loop: {in: "{{ range(80) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 3}}
  tool: {kind: probe, file: ${file}, label: "{{ iter.n }}", delay_ms: 40}
`),
        );
        await until(async () => traces(file).length > 4);
        await under.engine.signal(ref, { signalId: 'p', type: 'PAUSE' });
        await sleep(300);
        const before = traces(file).length;
        await sleep(200);
        expect(traces(file).length).toBe(before);
        await under.engine.signal(ref, { signalId: 'r', type: 'RESUME' });
        const events = await ended(ref);
        expect(lastOf(events).eventType).toBe('RunCompleted');
        expect(traces(file).length).toBe(80);
      });
    });

    describe('child runs', () => {
      const child =
        (step: string): ResolveSync =>
        (path) =>
          path === 'kid'
            ? {
                file: 'kid.yaml',
                text: `apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: kid, path: kid, version: "1"}\nworkflow:\n${step}`,
              }
            : undefined;
      const parent = playbook(`
- {step: start, tool: {kind: playbook, path: kid, input: {n: 20}}, next: {arcs: [{step: after, when: "{{ event.name == 'step.done' }}"}]}}
- {step: after, tool: {kind: noop, result: "{{ start.twice }}"}}
`);

      test('NE-D1 a playbook task is a run of its own, linked both ways, and its result comes back', async () => {
        const ref = await start(
          parent,
          {},
          child('- {step: start, tool: {kind: noop, result: {twice: "{{ workload.n * 2 }}"}}}'),
        );
        const events = await ended(ref);
        expect(lastOf(events)).toMatchObject({ eventType: 'RunCompleted', payload: { result: { value: 40 } } });
        const childRunId = of(events, 'WaitStarted')[0]?.payload?.['childRunId'] as string;
        const kid = await under.store.findRun(childRunId);
        expect(kid).toMatchObject({ status: 'COMPLETED', parentRunId: ref.runId });
      });

      test('a child that fails fails the step, and CANCEL of the parent reaches the child', async () => {
        const file = fresh();
        const failing = await start(parent, {}, child(`- {step: start, tool: {kind: probe, file: ${file}, fail: 5}}`));
        expect(lastOf(await ended(failing))).toMatchObject({ payload: { error: { code: 'CHILD_RUN_FAILED' } } });
        const other = fresh();
        const ref = await start(
          parent,
          {},
          child(`- {step: start, tool: {kind: probe, file: ${other}, delay_ms: 20000}}`),
        );
        await until(async () => traces(other).length === 1);
        await under.engine.cancelRun(ref);
        const events = await ended(ref);
        const childRunId = of(events, 'WaitStarted')[0]?.payload?.['childRunId'] as string;
        const kid = await ended({ ...ref, workflowId: childRunId, runId: childRunId } as EngineRunRef);
        expect(lastOf(kid).eventType).toBe('RunCancelled');
      });
    });

    describe('effects', () => {
      test('RQ-1.4a RQ-4.2a a write is judged, announced before and told after, with one receipt', async () => {
        const file = fresh();
        const events = await run(playbook(`- {step: start, tool: {kind: effect, file: ${file}, result: 7}}`));
        const own = types(events).filter((type) => /^(PolicyEffect|Effect)/.test(type));
        expect(own).toEqual(['PolicyEffectEvaluated', 'EffectAttempted', 'EffectSucceeded']);
        expect(of(events, 'EffectAttempted')[0]?.payload).toMatchObject({
          settledBy: expect.any(String),
          scope: 'run',
        });
        expect(of(events, 'PolicyEffectEvaluated')[0]?.payload).toMatchObject({
          decision: 'allow',
          reason: expect.stringContaining('No policy'),
        });
        expect(of(events, 'EffectSucceeded')[0]?.payload).toMatchObject({
          reversible: true,
          reverse: { kind: 'effect' },
        });
      });

      test('RQ-4.2a an effect that another run of the tenant has done under the same key is not done again', async () => {
        const file = fresh();
        const key = randomUUID();
        const text = playbook(
          `- {step: start, tool: {kind: effect, file: ${file}, result: {id: 9}, effect: {key: "pay:${key}"}}}`,
        );
        await run(text);
        const events = await run(text);
        expect(traces(file).length).toBe(1);
        expect(lastOf(events)).toMatchObject({ eventType: 'RunCompleted', payload: { result: { value: { id: 9 } } } });
        expect(of(events, 'EffectSucceeded')[0]?.payload).toHaveProperty('cachedFrom');
      });
    });

    describe('effects of several runs', () => {
      test('RQ-1.2a RQ-4.2a runs that want the same effect at once have it done once, and all of them get its result', async () => {
        const file = fresh();
        const key = randomUUID();
        const text = playbook(
          `- {step: start, tool: {kind: effect, file: ${file}, result: {id: 5}, delay_ms: 100, effect: {key: "once:${key}"}, spec: {timeout: 2}}}`,
        );
        const refs = await Promise.all([1, 2, 3, 4].map(() => start(text)));
        for (const ref of refs) {
          const events = await ended(ref);
          expect(lastOf(events)).toMatchObject({
            eventType: 'RunCompleted',
            payload: { result: { value: { id: 5 } } },
          });
        }
        expect(traces(file).length).toBe(1);
      });
    });

    describe('refusals', () => {
      test('WE-3.1d WE-3.1b WE-3.1.1a a reference that may not run is refused with its own code, and no run is made', async () => {
        const good = await keep(playbook('- {step: start, tool: {kind: noop}}'));
        const context = { ...SCOPE, runId: randomUUID(), targetAdapter: factory.provider };
        const bad: [Partial<PlanRef>, string][] = [
          [{ uri: 'file:///etc/passwd' }, 'PLAN_URI_NOT_ALLOWED'],
          [{ uri: 'http://169.254.169.254/plan.json' }, 'PLAN_URI_NOT_ALLOWED'],
          [{ schemaVersion: 'v9.0' }, 'PLAN_SCHEMA_VERSION_UNSUPPORTED'],
          [{ expiresAt: '2020-01-01T00:00:00Z' }, 'PLAN_EXPIRED'],
          [{ sizeBytes: 1e12 }, 'PLAN_TOO_LARGE'],
          [{ uri: `runledger-plan:sha256/${'0'.repeat(64)}`, sha256: '0'.repeat(64) }, 'PLAN_NOT_FOUND'],
          [{ sha256: '1'.repeat(64) }, 'PLAN_INTEGRITY_VALIDATION_FAILED'],
        ];
        for (const [change, code] of bad) {
          await expect(under.engine.startRun({ ...good, ...change }, context)).rejects.toMatchObject({ code });
        }
        expect(await under.store.findRun(context.runId)).toBeUndefined();
        const alerts = await under.store.listAlerts({ code: 'PLAN_INTEGRITY_VALIDATION_FAILED' });
        expect(alerts[0]).toMatchObject({ severity: 'P1', details: { expected: '1'.repeat(64), actual: good.sha256 } });
      });

      test('WE-4a a capability that the engine lacks refuses the start, and what a fallback allows is said in RunStarted', async () => {
        const asking = (capability: string, fallback: string): string =>
          playbook('- {step: start, tool: {kind: noop}}').replace(
            'version: "1"',
            `version: "1", requiresCapabilities: [${capability}], fallbackBehavior: ${fallback}`,
          );
        const started = async (capability: string, fallback: string): Promise<unknown> =>
          of(await run(asking(capability, fallback)), 'RunStarted')[0]?.payload;
        const { capabilities } = under.engine.capabilities();
        const lacking = Object.entries(capabilities).filter(([, { native }]) => native === undefined);
        const refused: [string, string][] = [['teleport', 'degrade']];
        for (const [capability, { emulation, withoutIt }] of lacking) {
          refused.push([capability, 'reject']);
          for (const [fallback, way] of Object.entries({ emulate: emulation, degrade: withoutIt })) {
            if (way === undefined) refused.push([capability, fallback]);
            else {
              expect(await started(capability, fallback)).toMatchObject({
                degraded: true,
                warnings: [{ message: expect.stringContaining(way) }],
                validationReport: { status: 'WARNINGS' },
              });
            }
          }
        }
        for (const [capability, fallback] of refused) {
          const runId = randomUUID();
          const planRef = await keep(asking(capability, fallback));
          await expect(
            under.engine.startRun(planRef, { ...SCOPE, runId, targetAdapter: factory.provider }),
          ).rejects.toMatchObject({ code: 'CAPABILITY_NOT_SUPPORTED', details: { report: { status: 'ERRORS' } } });
          expect(await under.store.findRun(runId)).toBeUndefined();
        }
        const has = Object.keys(capabilities).find((capability) => capabilities[capability]?.native !== undefined)!;
        expect(await started(has, 'reject')).toMatchObject({ validationReport: { status: 'VALID', warnings: [] } });
      });

      test('WE-2.1c the engine is chosen before: a context without a concrete one starts nothing', async () => {
        const planRef = await keep(playbook('- {step: start, tool: {kind: noop}}'));
        for (const targetAdapter of ['any', 'auto', undefined, '']) {
          const context = { ...SCOPE, runId: randomUUID(), targetAdapter } as never as Parameters<
            Engine['startRun']
          >[1];
          await expect(under.engine.startRun(planRef, context), String(targetAdapter)).rejects.toMatchObject({
            code: 'SCHEMA_VALIDATION_FAILED',
          });
          expect(await under.store.findRun(context.runId)).toBeUndefined();
        }
      });

      test('WE-2.1.3b another tenant finds no run, and a reference without its parts is refused', async () => {
        const ref = await start(playbook('- {step: start, tool: {kind: noop}}'));
        await ended(ref);
        const stranger = { tenantId: 'evil' };
        await expect(under.engine.getRunStatus(ref, stranger)).rejects.toMatchObject({ code: 'RUN_NOT_FOUND' });
        await expect(under.engine.signal(ref, { signalId: 'x', type: 'CANCEL' }, stranger)).rejects.toMatchObject({
          code: 'RUN_NOT_FOUND',
        });
        const broken = { provider: factory.provider, workflowId: ref.workflowId } as EngineRunRef;
        await expect(under.engine.getRunStatus(broken)).rejects.toMatchObject({ code: 'SCHEMA_VALIDATION_FAILED' });
      });
    });
  });
}

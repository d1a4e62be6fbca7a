import { expect, test } from 'vitest';
import { buildPlan } from '../testing/build-plan.ts';
import { TEST_CONTEXT, TEST_PLAN_REF } from '../testing/record-log.ts';
import { Scenario } from '../testing/scenario.ts';
import { compilePlan, engineState } from './compile-plan.ts';
import { decide } from './decide.ts';
import { fold } from './evolve.ts';
import { openWork } from './open-work.ts';
import { replay } from './replay.ts';

const arcs = (...list: { step: string; when?: string | boolean; args?: unknown; set?: Record<string, unknown> }[]) => ({
  mode: 'exclusive' as const,
  arcs: list,
});

test('a linear run: each step is routed and the next one scheduled in one decision, and the last one ends the run', () => {
  const run = new Scenario(buildPlan([{ stepId: 'a', next: ['b'] }, { stepId: 'b' }]));
  expect(run.start()).toEqual(['RunStarted', 'StepScheduled a']);
  expect(run.complete('a', 1)).toEqual(['StepCompleted a', 'NextEvaluated a', 'StepScheduled b']);
  expect(run.complete('b', 2)).toEqual(['StepCompleted b', 'NextEvaluated b', 'RunCompleted']);
  expect(run.snapshot).toMatchObject({ status: 'COMPLETED', failedSteps: 0 });
  expect(run.log.at(-1)?.payload).toMatchObject({ result: { value: 2 } });
});

test('WE-2.2a a run is requested, queued by admission control, approved and started, each only where it makes sense', () => {
  const run = new Scenario(buildPlan([{ stepId: 'a' }]));
  const request = { type: 'request', planRef: TEST_PLAN_REF, context: TEST_CONTEXT } as const;
  const admission = { decision: 'queue', reason: 'busy', gate: 'approval' } as const;
  expect(run.when({ ...request, admission })).toEqual([
    'PlaybookExecutionRequested',
    'PlaybookRequestEvaluated',
    'RunQueued',
  ]);
  expect(run.ask(request)).toMatchObject({ reject: { code: 'RUN_EXISTS' } });
  expect(run.ask({ type: 'start', started: {} })).toMatchObject({ reject: { code: 'INVALID_TRANSITION' } });
  expect(run.when({ type: 'approve', approvedBy: 'ann' })).toEqual(['RunApproved']);
  expect(run.start()).toEqual(['RunStarted', 'StepScheduled a']);
  expect(run.ask({ type: 'approve' })).toMatchObject({ reject: { code: 'INVALID_TRANSITION' } });
  expect(run.ask({ type: 'queue' })).toMatchObject({ reject: { code: 'INVALID_TRANSITION' } });
});

test('ES-3c a start that is delayed schedules the first step for later and says that it is held back', () => {
  const run = new Scenario(buildPlan([{ stepId: 'a' }]));
  const notBefore = '2026-01-01T00:05:00.000Z';
  const events = run.when({ type: 'start', started: { ...startPayload() }, notBefore });
  expect(events).toEqual(['RunStarted', 'StepScheduled a', 'StepDelayed a/wait:1']);
  expect(run.state.open.get('a')).toMatchObject({ status: 'PENDING', dueAt: notBefore });
});

function startPayload() {
  const run = new Scenario(buildPlan([{ stepId: 'a' }]));
  run.start();
  return run.log[0]!.payload!;
}

test('a plan that cannot be run fails the run before its first step', () => {
  const run = new Scenario(buildPlan([{ stepId: 'a' }]));
  run.request();
  const error = { category: 'plan', code: 'PLAN_EXPIRED', message: 'too late', retryable: false };
  expect(run.when({ type: 'failRun', error })).toEqual(['RunFailed']);
  expect(run.snapshot).toMatchObject({ status: 'FAILED', rootCause: { error } });
  expect(run.ask({ type: 'failRun', error })).toMatchObject({ reject: { code: 'INVALID_TRANSITION' } });
});

test('a run that nobody can go on with ends with everything that is open in it, and decided again it does the same', () => {
  const plan = buildPlan([
    { stepId: 'a', next: { mode: 'inclusive', arcs: [{ step: 'b' }, { step: 'c' }, { step: 'd' }] } },
    { stepId: 'b' },
    { stepId: 'c' },
    { stepId: 'd' },
  ]);
  const run = new Scenario(plan);
  run.start();
  run.complete('a');
  run.begin('c');
  run.begin('d');
  run.when({ type: 'park', stepId: 'd', attempt: 1, kind: 'timer', dueAt: '2026-01-01T00:01:00.000Z' });
  const error = { category: 'plan', code: 'PLAN_NOT_FOUND', message: 'it is gone', retryable: false };
  expect(run.ask({ type: 'failRun', error })).toMatchObject({ reject: { code: 'INVALID_TRANSITION' } });
  expect(run.when({ type: 'failRun', error, abandon: true })).toEqual([
    'StepSkipped b',
    'StepFailed c',
    'WaitEnded d/wait:1',
    'StepFailed d',
    'RunFailed',
  ]);
  expect(run.snapshot).toMatchObject({ status: 'FAILED', failedSteps: 2, rootCause: { error } });
  expect(openWork(run.state)).toEqual([]);
  expect(replay(plan, run.log)).toMatchObject({ ok: true });
});

test('NE-3c exclusive arcs: the first match in order is taken, and next.evaluated names matched and selected', () => {
  const plan = buildPlan([
    {
      stepId: 'a',
      next: arcs(
        { step: 'b', when: '{{ a.n > 10 }}' },
        { step: 'c', when: '{{ a.n > 1 }}', args: { n: '{{ a.n }}' } },
        { step: 'd' },
      ),
    },
    { stepId: 'b' },
    { stepId: 'c' },
    { stepId: 'd' },
  ]);
  const run = new Scenario(plan);
  run.start();
  expect(run.complete('a', { n: 5 })).toEqual(['StepCompleted a', 'NextEvaluated a', 'StepScheduled c']);
  expect(run.log.find((event) => event.eventType === 'NextEvaluated')?.payload).toEqual({
    boundary: 'step.done',
    mode: 'exclusive',
    matched: [{ step: 'c', arc: 1, when: '{{ a.n > 1 }}' }],
    selected: [{ step: 'c', arc: 1, args: { n: 5 } }],
  });
  expect(run.state.open.get('c')?.args).toEqual({ n: 5 });
});

test('inclusive arcs: all matches are taken, and each gets its own token', () => {
  const next = { mode: 'inclusive' as const, arcs: [{ step: 'b' }, { step: 'c', when: false }, { step: 'd' }] };
  const run = new Scenario(buildPlan([{ stepId: 'a', next }, { stepId: 'b' }, { stepId: 'c' }, { stepId: 'd' }]));
  run.start();
  expect(run.complete('a').slice(2)).toEqual(['StepScheduled b', 'StepScheduled d']);
  run.complete('b');
  expect(run.complete('d').at(-1)).toBe('RunCompleted');
});

test('the boundary has the name of what ended; call.done and, for a loop, step.done are other names of its end', () => {
  const matches = (name: string, loop = false) => {
    const step = {
      stepId: 'a',
      ...(loop ? { loop: { in: [1], iterator: 'x', mode: 'sequential' as const } } : {}),
      next: arcs({ step: 'b', when: `{{ event.name == '${name}' }}` }),
    };
    const run = new Scenario(buildPlan([step, { stepId: 'b' }]));
    run.start();
    if (loop) {
      run.loop('a');
      run.iterate('a', 0);
      return run.endLoop('a', [null]).includes('StepScheduled b');
    }
    return run.complete('a').includes('StepScheduled b');
  };
  expect([matches('step.done'), matches('call.done'), matches('loop.done'), matches('step.failed')]).toEqual([
    true,
    true,
    false,
    false,
  ]);
  expect([matches('loop.done', true), matches('step.done', true), matches('call.done', true)]).toEqual([
    true,
    true,
    true,
  ]);
});

test('NE-3d a refused step is skipped with its reason and never scheduled, and its arcs see step.skipped', () => {
  const admit = {
    rules: [
      { when: '{{ ctx.go }}', allow: true },
      { allow: false, reason: 'not today' },
    ],
  };
  const next = arcs({ step: 'c', when: "{{ event.name == 'step.skipped' and event.reason == 'not today' }}" });
  const plan = buildPlan([{ stepId: 'a', next: ['b'] }, { stepId: 'b', admit, next }, { stepId: 'c' }]);
  const refused = new Scenario(plan);
  refused.start();
  expect(refused.complete('a')).toEqual([
    'StepCompleted a',
    'NextEvaluated a',
    'PolicyAdmitEvaluated b',
    'StepSkipped b',
    'NextEvaluated b',
    'StepScheduled c',
  ]);
  expect(refused.log.find((event) => event.eventType === 'PolicyAdmitEvaluated')?.payload).toEqual({
    allow: false,
    matchedRuleIndex: 1,
    reason: 'not today',
  });
  const admitted = new Scenario(plan);
  admitted.start();
  expect(admitted.complete('a', null, { go: true })).toEqual([
    'StepCompleted a',
    'CtxPatched a/ctx:1',
    'NextEvaluated a',
    'PolicyAdmitEvaluated b',
    'StepScheduled b',
  ]);
});

test('arcs pass args and set ctx; a condition sees ctx as it was before', () => {
  const next = arcs({
    step: 'b',
    when: '{{ ctx.n is not defined }}',
    set: { 'ctx.n': '{{ a.n + 1 }}' },
    args: { x: 1 },
  });
  const run = new Scenario(buildPlan([{ stepId: 'a', next }, { stepId: 'b' }]));
  run.start();
  expect(run.complete('a', { n: 1 })).toEqual([
    'StepCompleted a',
    'CtxPatched a/ctx:1',
    'NextEvaluated a',
    'StepScheduled b',
  ]);
  expect(run.state.ctx).toEqual({ n: 2 });
});

test('a cycle makes new instances, and a name means the nearest ancestor', () => {
  const plan = buildPlan([
    { stepId: 'fetch', next: ['check'] },
    {
      stepId: 'check',
      next: arcs(
        { step: 'fetch', when: '{{ fetch.page < 3 }}', args: { page: '{{ fetch.page + 1 }}' } },
        { step: 'end' },
      ),
    },
    { stepId: 'end' },
  ]);
  const run = new Scenario(plan);
  run.start();
  run.complete('fetch', { page: 1 });
  expect(run.complete('check')).toContain('StepScheduled fetch#2');
  run.complete('fetch#2', { page: 2 });
  expect(run.complete('check#2')).toContain('StepScheduled fetch#3');
  run.complete('fetch#3', { page: 3 });
  expect(run.complete('check#3')).toContain('StepScheduled end');
  expect(run.complete('end').at(-1)).toBe('RunCompleted');
});

test('side by side, a name means the ancestor of one’s own branch, however fast the other one was', () => {
  const plan = buildPlan([
    {
      stepId: 'a',
      next: {
        mode: 'inclusive',
        arcs: [
          { step: 'w', args: { i: 1 } },
          { step: 'w', args: { i: 2 } },
        ],
      },
    },
    { stepId: 'w', next: ['r'] },
    { stepId: 'r', next: arcs({ step: 'z', args: { got: '{{ w.i }}' } }) },
    { stepId: 'z' },
  ]);
  const run = new Scenario(plan);
  run.start();
  run.complete('a');
  run.complete('w#2', { i: 'second' });
  run.complete('w', { i: 'first' });
  // The second branch finished first, so its successor has the lower number; it still sees its own ancestor.
  run.complete('r');
  run.complete('r#2');
  expect(run.state.open.get('z')?.args).toEqual({ got: 'second' });
  expect(run.state.open.get('z#2')?.args).toEqual({ got: 'first' });
  // A state that keeps only what the plan can ask for decides the same.
  const lean = fold(engineState(plan, 'run-1'), run.log);
  expect(lean.open.get('z')?.args).toEqual({ got: 'second' });
  expect([...compilePlan(plan).lineageNames]).toEqual(['w']);
});

test('no token is left and no final step: the run completes; with one, it runs once before the end', () => {
  const plan = buildPlan([{ stepId: 'a', next: ['b', 'last'] }, { stepId: 'b' }, { stepId: 'last' }], {
    finalStep: 'last',
  });
  const run = new Scenario(plan);
  run.start();
  expect(run.complete('a')).toEqual(['StepCompleted a', 'NextEvaluated a', 'StepScheduled b']);
  expect(run.complete('b')).toEqual(['StepCompleted b', 'NextEvaluated b', 'StepScheduled last']);
  expect(run.complete('last').at(-1)).toBe('RunCompleted');
});

test('no_next_is_error turns a dead end into a failure, but not a leaf and not a step that says what no match means', () => {
  const dead = (next: object | undefined, more = {}) => {
    const step = { stepId: 'a', ...(next ? { next: next as never } : {}) };
    const run = new Scenario(buildPlan([step, { stepId: 'b' }], { noNextIsError: true, ...more }));
    run.start();
    return run.complete('a').at(-1);
  };
  const never = arcs({ step: 'b', when: '{{ false }}' });
  expect(dead(never)).toBe('RunFailed');
  expect(dead(never, { noNextIsError: false })).toBe('RunCompleted');
  expect(dead({ ...never, onNoMatch: 'quiet' })).toBe('RunCompleted');
  expect(dead(undefined)).toBe('RunCompleted');
});

test('a template that fails in an arc or an admission rule fails the run with its code, and nothing is skipped silently', () => {
  const arc = new Scenario(
    buildPlan([{ stepId: 'a', next: arcs({ step: 'b', when: '{{ nowhere.x }}' }) }, { stepId: 'b' }]),
  );
  arc.start();
  expect(arc.complete('a')).toEqual(['StepCompleted a', 'NextEvaluated a', 'RunFailed']);
  expect(arc.snapshot.rootCause).toMatchObject({ stepId: 'a', error: { code: 'TEMPLATE_UNDEFINED' } });
  const admit = { rules: [{ when: '{{ nowhere.x }}', allow: true }] };
  const rule = new Scenario(
    buildPlan([
      { stepId: 'a', next: ['b'] },
      { stepId: 'b', admit },
    ]),
  );
  rule.start();
  expect(rule.complete('a')).toEqual(['StepCompleted a', 'NextEvaluated a', 'PolicyAdmitEvaluated b', 'RunFailed']);
  expect(rule.snapshot.rootCause).toMatchObject({ error: { code: 'TEMPLATE_UNDEFINED' } });
});

test('templates see the workload with the request merged in, ctx, args, execution_id and inert keys', () => {
  const when =
    "{{ workload.deep.a == 1 and deep.b == 2 and top == 'x' and execution_id == 'run-1' and job.uuid == execution_id and tracing.on }}";
  const plan = buildPlan([{ stepId: 'a', next: arcs({ step: 'b', when }) }, { stepId: 'b' }], {
    workload: { deep: { a: 1, b: 1 }, top: 'x' },
    inert: { tracing: { on: true } },
  });
  const run = new Scenario(plan);
  run.start({ deep: { b: 2 } });
  expect(run.complete('a')).toContain('StepScheduled b');
});

test('a value that lives outside of the log is asked for, and the same command with it is decided', () => {
  const plan = buildPlan([
    { stepId: 'a', next: arcs({ step: 'b', when: '{{ a.rows | length > 1 }}' }) },
    { stepId: 'b' },
  ]);
  const run = new Scenario(plan);
  run.start();
  run.begin('a');
  const result = { ref: { uri: 's3://b/rows', kind: 'result' }, store: 's3', totalBytes: 99, extracted: { count: 2 } };
  const settled = { status: 'completed', result } as const;
  const command = { type: 'stepSettled', stepId: 'a', attempt: 1, settled } as const;
  expect(run.ask(command)).toEqual({ need: ['s3://b/rows'] });
  expect(run.when({ ...command, values: { 's3://b/rows': { rows: [1, 2] } } })).toContain('StepScheduled b');
});

test('NE-2c an event holds a reference, extracted fields and a bounded preview, and what was extracted needs no fetching', () => {
  const plan = buildPlan([{ stepId: 'a', next: arcs({ step: 'b', when: '{{ a.count == 2 }}' }) }, { stepId: 'b' }]);
  const run = new Scenario(plan);
  run.start();
  run.begin('a');
  const result = { ref: { uri: 's3://b/rows', kind: 'result' }, store: 's3', totalBytes: 99, extracted: { count: 2 } };
  const settled = { status: 'completed', result } as const;
  expect(run.when({ type: 'stepSettled', stepId: 'a', attempt: 1, settled })).toContain('StepScheduled b');
});

test('a result that comes late, twice, or for a step that never began is refused and changes nothing', () => {
  const run = new Scenario(buildPlan([{ stepId: 'a', next: ['b'] }, { stepId: 'b' }]));
  run.start();
  const settled = { status: 'completed' } as const;
  const command = { type: 'stepSettled', stepId: 'a', attempt: 1, settled } as const;
  expect(run.ask(command)).toMatchObject({ reject: { code: 'INVALID_TRANSITION' } });
  run.complete('a');
  expect(run.ask(command)).toMatchObject({ reject: { code: 'INVALID_TRANSITION' } });
  expect(run.ask({ ...command, stepId: 'b', attempt: 2 })).toMatchObject({ reject: { code: 'INVALID_TRANSITION' } });
});

test('NE-5b a worker cannot start a step: what it began by itself has no token and leads nowhere', () => {
  const run = new Scenario(
    buildPlan([
      { stepId: 'a', next: ['b'] },
      { stepId: 'b', next: ['a'] },
    ]),
  );
  run.start();
  run.store([{ eventType: 'StepStarted', stepId: 'b', logicalAttemptId: 1 }]);
  const settled = { status: 'completed' } as const;
  expect(run.ask({ type: 'stepSettled', stepId: 'b', attempt: 1, settled })).toMatchObject({
    reject: { code: 'INVALID_TRANSITION' },
  });
  expect(openWork(run.state).map((unit) => unit.stepId)).toEqual(['a']);
});

test('a cycle of refused steps ends with STEP_LIMIT instead of for ever', () => {
  const admit = { rules: [{ allow: false }] };
  const plan = buildPlan(
    [
      { stepId: 'a', next: ['b'] },
      { stepId: 'b', admit, next: ['c'] },
      { stepId: 'c', admit, next: ['b'] },
    ],
    {
      limits: { maxSteps: 50 },
    },
  );
  const run = new Scenario(plan);
  run.start();
  expect(run.complete('a').at(-1)).toBe('RunFailed');
  expect(run.snapshot.rootCause?.error.code).toBe('STEP_LIMIT');
  expect(run.snapshot.steps.length).toBe(50);
});

test('decide changes neither the state nor the plan, and answers the same again', () => {
  const plan = buildPlan([{ stepId: 'a', next: ['b'] }, { stepId: 'b' }]);
  const run = new Scenario(plan);
  run.start();
  run.begin('a');
  const command = {
    type: 'stepSettled',
    stepId: 'a',
    attempt: 1,
    settled: { status: 'completed' },
    now: run.now,
  } as const;
  const before = JSON.stringify(run.snapshot);
  const first = decide(plan, run.state, command);
  expect(decide(plan, run.state, command)).toEqual(first);
  expect(JSON.stringify(run.snapshot)).toBe(before);
});

test('nothing is decided about a run whose log lost a payload that the decision would need', () => {
  const run = new Scenario(buildPlan([{ stepId: 'a' }]));
  run.start();
  const records = run.log.map(({ payload: _gone, ...record }) => ({ ...record, erased: true }));
  const state = fold(engineState(run.plan, 'run-1'), records);
  expect(decide(run.plan, state, { type: 'tick', now: run.now })).toMatchObject({ reject: { code: 'PAYLOAD_ERASED' } });
});

import { expect, test } from 'vitest';
import { buildPlan, type ShortStep } from '../testing/build-plan.ts';
import { TEST_CONTEXT, TEST_PLAN_REF } from '../testing/record-log.ts';
import { Scenario } from '../testing/scenario.ts';
import { engineState } from './compile-plan.ts';
import { fold } from './evolve.ts';
import { openWork } from './open-work.ts';
import { type CarriedLoop, initialState } from './state.ts';

const retry = (old: Scenario, more: { from?: string; sha256?: string; loops?: Record<string, CarriedLoop> } = {}) => {
  const { sha256, ...rest } = more;
  const planRef = { ...TEST_PLAN_REF, ...(sha256 === undefined ? {} : { sha256 }) };
  return { type: 'retryRun', planRef, context: TEST_CONTEXT, old: old.state, ...rest } as const;
};
const again = (old: Scenario, more: Parameters<typeof retry>[1] = {}, plan = old.plan) => {
  const run = new Scenario(plan, 'run-2');
  return { run, events: run.when(retry(old, more)) };
};
const linear: ShortStep[] = [
  { stepId: 'a', next: ['b'] },
  { stepId: 'b', next: { mode: 'exclusive', arcs: [{ step: 'c', when: "{{ event.name == 'step.done' }}" }] } },
  { stepId: 'c', next: { mode: 'exclusive', arcs: [{ step: 'd', args: { sum: '{{ a.n + c.n }}' } }] } },
  { stepId: 'd' },
];

test('a retry carries what completed, with results and ctx, and schedules again what had failed', () => {
  const old = new Scenario(buildPlan(linear));
  old.start();
  old.complete('a', { n: 1 }, { seen: { deep: true } });
  expect(old.fail('b').at(-1)).toBe('RunFailed');
  const { run, events } = again(old);
  expect(events).toEqual([
    'PlaybookExecutionRequested',
    'PlaybookRequestEvaluated',
    'StepCarried a',
    'StepScheduled b',
    'CtxPatched b/ctx:1',
  ]);
  expect(run.log[0]?.payload).toMatchObject({ retryOf: 'run-1', rootRunId: 'run-1' });
  expect(run.start()).toEqual(['RunStarted']);
  expect(run.state.ctx).toEqual({ seen: { deep: true } });
  expect(run.snapshot.steps).toMatchObject([
    { stepId: 'a', status: 'SUCCESS' },
    { stepId: 'b', status: 'PENDING', logicalAttemptId: 1 },
  ]);
  run.complete('b');
  run.complete('c', { n: 2 });
  // The carried result is there for templates although step a never ran here.
  expect(run.state.open.get('d')?.args).toEqual({ sum: 3 });
  expect(run.complete('d').at(-1)).toBe('RunCompleted');
  expect(again(run, { from: 'd' }).run.log[0]?.payload).toMatchObject({ retryOf: 'run-2', rootRunId: 'run-1' });
});

test('the new log is complete without the old one: an engine that folds only it knows what is open', () => {
  const old = new Scenario(buildPlan(linear));
  old.start();
  old.complete('a', { n: 1 });
  old.fail('b');
  const { run } = again(old);
  run.start();
  expect(openWork(fold(engineState(run.plan, 'run-2'), run.log))).toEqual([{ kind: 'step', stepId: 'b', attempt: 1 }]);
});

test('what was cancelled or skipped with the run is scheduled again, what had ended beside it is routed', () => {
  const plan = buildPlan([
    { stepId: 's', next: ['a', 'b', 'c'] },
    { stepId: 'a' },
    { stepId: 'b', next: ['after'] },
    { stepId: 'c' },
    { stepId: 'after' },
  ]);
  const old = new Scenario(plan);
  old.start();
  old.complete('s');
  old.begin('b');
  old.fail('a');
  expect(old.complete('b').at(-1)).toBe('RunFailed');
  const { run, events } = again(old);
  expect(events.slice(2)).toEqual(['StepCarried s', 'StepCarried b', 'StepScheduled a', 'StepScheduled c']);
  expect(run.start()).toEqual(['RunStarted', 'NextEvaluated b', 'StepScheduled after']);
});

test('tokens that a join held stay held', () => {
  const plan = buildPlan([
    { stepId: 's', next: ['a', 'b'] },
    { stepId: 'a', next: { mode: 'exclusive', arcs: [{ step: 'j', args: { a: 1 } }] } },
    {
      stepId: 'b',
      next: { mode: 'exclusive', arcs: [{ step: 'j', when: "{{ event.name == 'step.done' }}", args: { b: 2 } }] },
    },
    { stepId: 'j', join: 'all' },
  ]);
  const old = new Scenario(plan);
  old.start();
  old.complete('s');
  old.complete('a');
  old.fail('b');
  const { run } = again(old);
  expect(run.start()).toEqual(['RunStarted']);
  expect(run.complete('b')).toContain('StepScheduled j');
  expect(run.state.open.get('j')?.args).toEqual({ a: 1, b: 2 });
});

test('--from runs a step and everything it caused again, and keeps the rest', () => {
  const plan = buildPlan([
    { stepId: 's', next: ['a', 'b'] },
    { stepId: 'a', next: ['a2'] },
    { stepId: 'a2', next: ['j'] },
    { stepId: 'b', next: ['j'] },
    { stepId: 'j', join: 'all' },
  ]);
  const old = new Scenario(plan);
  old.start();
  for (const step of ['s', 'a', 'b', 'a2', 'j']) old.complete(step);
  expect(old.snapshot.status).toBe('COMPLETED');
  const { run, events } = again(old, { from: 'a' });
  expect(events.slice(2)).toEqual(['StepCarried s', 'StepCarried b', 'StepScheduled a']);
  run.start();
  run.complete('a');
  expect(run.complete('a2')).toContain('StepScheduled j');
  expect(run.state.open.get('j')?.cause).toMatchObject({ arrivals: [{ from: 'a2' }, { from: 'b' }] });
});

test('the final step is not carried: it runs again when the retry ends', () => {
  const plan = buildPlan([{ stepId: 'a' }, { stepId: 'last' }], { finalStep: 'last' });
  const old = new Scenario(plan);
  old.start();
  old.fail('a');
  old.complete('last');
  const { run, events } = again(old);
  expect(events.slice(2)).toEqual(['StepScheduled a']);
  run.start();
  expect(run.complete('a')).toContain('StepScheduled last');
  expect(run.complete('last').at(-1)).toBe('RunCompleted');
});

test('finished loop indexes are carried and not run again', () => {
  const loop = { in: [10, 20, 30], iterator: 'x', mode: 'parallel' as const, maxInFlight: 3 };
  const old = new Scenario(buildPlan([{ stepId: 'each', loop }]));
  old.start();
  old.loop('each');
  old.iterate('each', 0, 'A');
  old.iterate('each', 2, 'C');
  old.iterate('each', 1, new Error('no'));
  expect(old.snapshot.status).toBe('FAILED');
  // The old state still knows the loop, so that whoever retries can tell what had finished.
  expect(old.state.loops.get('each')).toMatchObject({ attempt: 1, ended: 3, failed: 1, count: 3 });
  const results = { value: { 0: 'A', 2: 'C' } };
  const { run } = again(old, { loops: { each: { finished: [0, 2], results } } });
  run.start();
  expect(run.loop('each')).toEqual(['LoopStarted each', 'LoopIterationScheduled each/1']);
  expect(run.log.find((event) => event.eventType === 'LoopStarted')?.payload).toMatchObject({
    finished: [0, 2],
    results,
  });
  run.iterate('each', 1, 'B');
  expect(run.endLoop('each', ['A', 'B', 'C']).at(-1)).toBe('RunCompleted');
});

test('a retry is refused for a run that has not ended, for a plan with another hash and for a run that is done', () => {
  const old = new Scenario(buildPlan(linear));
  old.start();
  const ask = (more: Parameters<typeof retry>[1] = {}) => new Scenario(old.plan, 'run-2').ask(retry(old, more));
  const refused = { reject: { code: 'INVALID_TRANSITION' } };
  expect(ask()).toMatchObject(refused);
  old.complete('a', { n: 1 });
  old.fail('b');
  expect(ask()).toHaveProperty('events');
  expect(ask({ sha256: 'f'.repeat(64) })).toMatchObject(refused);
  expect(ask({ sha256: 'f'.repeat(64), from: 'b' })).toHaveProperty('events');
  expect(ask({ from: 'nowhere' })).toMatchObject({ reject: { code: 'STEP_NOT_FOUND' } });
  expect(ask({ from: 'd' })).toMatchObject(refused);
  const done = new Scenario(buildPlan([{ stepId: 'a' }]));
  done.start();
  done.complete('a');
  expect(new Scenario(done.plan, 'run-2').ask(retry(done))).toMatchObject(refused);
  const lean = { ...retry(old), old: fold(initialState('run-1', { keepFinished: false }), old.log) };
  expect(new Scenario(old.plan, 'run-2').ask(lean)).toMatchObject({ reject: { code: 'INTERNAL' } });
});

test('a branch that a cycle repeated keeps its instances and its ancestors in the retry', () => {
  const plan = buildPlan([
    { stepId: 'f', next: ['g'] },
    {
      stepId: 'g',
      next: {
        mode: 'exclusive',
        arcs: [
          { step: 'f', when: "{{ event.name == 'step.done' and f.n < 2 }}" },
          { step: 'z', when: "{{ event.name == 'step.done' }}", args: { n: '{{ f.n }}' } },
        ],
      },
    },
    { stepId: 'z' },
  ]);
  const old = new Scenario(plan);
  old.start();
  old.complete('f', { n: 1 });
  old.complete('g');
  old.complete('f#2', { n: 2 });
  old.fail('g#2');
  const { run, events } = again(old);
  expect(events.slice(2)).toEqual(['StepCarried f', 'StepCarried g', 'StepCarried f#2', 'StepScheduled g#2']);
  run.start();
  expect(run.complete('g#2')).toContain('StepScheduled z');
  expect(run.state.open.get('z')?.args).toEqual({ n: 2 });
});

test('a failure that the old run handled is listed when the retry completes, and the last result is still the last', () => {
  const old = new Scenario(
    buildPlan([
      { stepId: 'a', next: ['h'] },
      { stepId: 'h', next: { mode: 'exclusive', arcs: [{ step: 'z', when: '{{ h + ctx.add > 9 }}' }] } },
      { stepId: 'z' },
    ]),
  );
  old.start();
  old.fail('a', { code: 'E1' });
  expect(old.complete('h', 5, { add: {} }).at(-1)).toBe('RunFailed');
  const run = new Scenario(old.plan, 'run-2');
  run.when({ ...retry(old), old: { ...old.state, ctx: { add: 1 } } });
  expect(run.start()).toEqual(['RunStarted', 'NextEvaluated h', 'RunCompleted']);
  expect(run.log.at(-1)?.payload).toMatchObject({
    result: { value: 5 },
    handledFailures: [{ stepId: 'a', error: { code: 'E1' } }],
  });
});

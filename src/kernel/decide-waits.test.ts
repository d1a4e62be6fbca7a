import { expect, test } from 'vitest';
import { buildPlan, type ShortStep } from '../testing/build-plan.ts';
import { Scenario } from '../testing/scenario.ts';
import { openWork, workOf } from './open-work.ts';

const start = (steps: ShortStep[] = [{ stepId: 'a', next: ['b'] }, { stepId: 'b' }]) => {
  const run = new Scenario(buildPlan(steps));
  run.start();
  return run;
};

test('ES-1.3a a parked step waits as an entity of its own, and its end makes the step eligible again, which counts on how often it was taken', () => {
  const run = start();
  run.begin('a');
  const parked = { stepId: 'a', attempt: 1, engineAttempt: 3 } as const;
  expect(run.when({ type: 'park', ...parked, kind: 'child', childRunId: 'run-2' })).toEqual(['WaitStarted a/wait:1']);
  expect(openWork(run.state)).toEqual([{ kind: 'wait', stepId: 'a', attempt: 1, entity: 'a/wait:1', wait: 'child' }]);
  const decision = run.ask({ type: 'waitEnded', entity: 'a/wait:1', outcome: 'done', result: { value: 7 } });
  expect('events' in decision && workOf(decision.events)).toEqual([
    { kind: 'step', stepId: 'a', attempt: 1, taken: 3 },
  ]);
  expect(run.when({ type: 'waitEnded', entity: 'a/wait:1', outcome: 'done', result: { value: 7 } })).toEqual([
    'WaitEnded a/wait:1',
  ]);
  expect(openWork(run.state)).toEqual([{ kind: 'step', stepId: 'a', attempt: 1, taken: 3 }]);
  expect(run.ask({ type: 'waitEnded', entity: 'a/wait:1', outcome: 'done' })).toMatchObject({
    reject: { code: 'INVALID_TRANSITION' },
  });
  expect(run.complete('a')).toContain('StepScheduled b');
});

test('a second wait of the same step is a second entity', () => {
  const run = start();
  run.begin('a');
  for (const n of [1, 2]) {
    const dueAt = '2026-01-01T00:01:00.000Z';
    expect(run.when({ type: 'park', stepId: 'a', attempt: 1, kind: 'timer', dueAt })).toEqual([
      `WaitStarted a/wait:${n}`,
    ]);
    expect(openWork(run.state)[0]).toMatchObject({ kind: 'wait', dueAt });
    run.when({ type: 'waitEnded', entity: `a/wait:${n}`, outcome: 'done' });
  }
});

test('a rejected or expired approval fails the step and the run', () => {
  for (const [outcome, code] of [
    ['rejected', 'APPROVAL_REJECTED'],
    ['expired', 'APPROVAL_EXPIRED'],
  ] as const) {
    const run = start();
    run.begin('a');
    run.when({ type: 'park', stepId: 'a', attempt: 1, kind: 'approval', approvalId: 'ap-1' });
    expect(run.when({ type: 'waitEnded', entity: 'a/wait:1', outcome, by: 'ann' })).toEqual([
      'WaitEnded a/wait:1',
      'StepFailed a',
      'NextEvaluated a',
      'RunFailed',
    ]);
    expect(run.snapshot.rootCause?.error.code).toBe(code);
  }
});

test('an iteration waits by itself, and its rejection fails the loop', () => {
  const loop = { in: [1, 2], iterator: 'x', mode: 'parallel' as const };
  const run = new Scenario(buildPlan([{ stepId: 'each', loop }]));
  run.start();
  run.loop('each');
  run.beginIteration('each', 0);
  run.beginIteration('each', 1);
  expect(run.when({ type: 'park', stepId: 'each', attempt: 1, index: 1, kind: 'approval' })).toEqual([
    'WaitStarted each/1/wait:1',
  ]);
  expect(openWork(run.state).map((unit) => unit.kind)).toEqual(['iteration', 'wait']);
  expect(run.when({ type: 'waitEnded', entity: 'each/1/wait:1', outcome: 'rejected' })).toEqual([
    'WaitEnded each/1/wait:1',
    'LoopIterationFailed each/1',
  ]);
  expect(run.iterate('each', 0).at(-1)).toBe('RunFailed');
  expect(run.snapshot.rootCause?.error.code).toBe('APPROVAL_REJECTED');
});

test('a step that ends while it waits (a time-out) ends its wait too', () => {
  const run = start([{ stepId: 'a' }]);
  run.begin('a');
  run.when({ type: 'park', stepId: 'a', attempt: 1, kind: 'timer', dueAt: run.now });
  expect(run.fail('a', { code: 'STEP_TIMEOUT' })).toEqual([
    'WaitEnded a/wait:1',
    'StepFailed a',
    'NextEvaluated a',
    'RunFailed',
  ]);
});

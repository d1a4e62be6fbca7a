import { expect, test } from 'vitest';
import { buildPlan } from '../testing/build-plan.ts';
import { Scenario } from '../testing/scenario.ts';
import { runWord, substatus } from './status-words.ts';

const onFailure = (step: string) => ({
  mode: 'exclusive' as const,
  arcs: [{ step, when: "{{ event.name == 'step.failed' and event.error.code == 'BOOM' }}" }],
});

test('a failure without a matching arc fails the run, with the step as its root cause', () => {
  const run = new Scenario(buildPlan([{ stepId: 'a' }]));
  run.start();
  expect(run.fail('a')).toEqual(['StepFailed a', 'NextEvaluated a', 'RunFailed']);
  expect(run.snapshot).toMatchObject({ status: 'FAILED', rootCause: { stepId: 'a', error: { code: 'BOOM' } } });
});

test('RQ-2.2b a failure that an arc handles is settled: the run completes and lists it', () => {
  const run = new Scenario(buildPlan([{ stepId: 'a', next: onFailure('b') }, { stepId: 'b' }]));
  run.start();
  expect(run.fail('a')).toEqual(['StepFailed a', 'NextEvaluated a', 'StepScheduled b']);
  expect(run.complete('b').at(-1)).toBe('RunCompleted');
  expect(run.log.at(-1)?.payload).toMatchObject({ handledFailures: [{ stepId: 'a', error: { code: 'BOOM' } }] });
  expect(runWord(run.snapshot.status)).toBe('succeeded');
  expect(run.snapshot.failedSteps).toBe(1);
});

test('an arc without a condition always matches, a failure too: the run goes on and lists it as handled', () => {
  const run = new Scenario(buildPlan([{ stepId: 'a', next: ['b'] }, { stepId: 'b' }]));
  run.start();
  expect(run.fail('a')).toContain('StepScheduled b');
  expect(run.complete('b').at(-1)).toBe('RunCompleted');
  expect(run.log.at(-1)?.payload).toMatchObject({ handledFailures: [{ stepId: 'a' }] });
});

test('RQ-2.2b best_effort settles a failure without an arc', () => {
  const run = new Scenario(buildPlan([{ stepId: 'a', failure: { mode: 'best_effort' } }]));
  run.start();
  expect(run.fail('a').at(-1)).toBe('RunCompleted');
  expect(run.log.at(-1)?.payload).toMatchObject({ handledFailures: [{ stepId: 'a' }] });
});

test('fail_fast: what has not begun is skipped, what is in flight ends first, then the run fails', () => {
  const run = new Scenario(
    buildPlan([
      { stepId: 's', next: ['a', 'b', 'c'] },
      { stepId: 'a' },
      { stepId: 'b', next: ['d'] },
      { stepId: 'c' },
      { stepId: 'd' },
    ]),
  );
  run.start();
  run.complete('s');
  run.begin('b');
  expect(run.fail('a')).toEqual(['StepFailed a', 'NextEvaluated a', 'StepSkipped c']);
  expect(run.state.open.get('c')).toMatchObject({ skipCode: 'CANCELLED' });
  // Nothing is scheduled any more, not even what a step that completes would lead to.
  expect(run.complete('b')).toEqual(['StepCompleted b', 'RunFailed']);
});

test('a parked step is aborted by fail_fast at once, and left to finish by best_effort', () => {
  for (const mode of ['fail_fast', 'best_effort'] as const) {
    const plan = buildPlan([{ stepId: 's', next: ['a', 'b'] }, { stepId: 'a', failure: { mode } }, { stepId: 'b' }]);
    const run = new Scenario(plan);
    run.start();
    run.complete('s');
    run.begin('b');
    run.when({ type: 'park', stepId: 'b', attempt: 1, kind: 'timer', dueAt: run.now });
    const denied = run.fail('a', { code: 'POLICY_DENIED', category: 'policy' });
    expect(denied).toEqual(
      mode === 'fail_fast'
        ? ['StepFailed a', 'NextEvaluated a', 'WaitEnded b/wait:1', 'StepFailed b', 'RunFailed']
        : ['StepFailed a', 'NextEvaluated a'],
    );
  }
});

test('nothing catches a policy denial or a rejected approval: no arc, no best_effort, no retry', () => {
  for (const code of ['POLICY_DENIED', 'APPROVAL_REJECTED', 'APPROVAL_EXPIRED']) {
    const next = { mode: 'exclusive' as const, arcs: [{ step: 'b' }] };
    const failure = { mode: 'best_effort' as const, retry: { attempts: 5 } };
    const run = new Scenario(buildPlan([{ stepId: 'a', next, failure }, { stepId: 'b' }]));
    run.start();
    expect(run.fail('a', { code })).toEqual(['StepFailed a', 'NextEvaluated a', 'RunFailed']);
    expect(run.snapshot.rootCause?.error.code).toBe(code);
  }
});

test('the final step runs after a failure too, and the run still fails with the first cause', () => {
  const run = new Scenario(buildPlan([{ stepId: 'a' }, { stepId: 'last' }], { finalStep: 'last' }));
  run.start();
  expect(run.fail('a')).toEqual(['StepFailed a', 'NextEvaluated a', 'StepScheduled last']);
  expect(run.complete('last')).toEqual(['StepCompleted last', 'NextEvaluated last', 'RunFailed']);
  expect(run.snapshot.rootCause?.stepId).toBe('a');
});

test('a final step that fails fails the run, and one that is refused does not run', () => {
  const failing = new Scenario(buildPlan([{ stepId: 'a' }, { stepId: 'last' }], { finalStep: 'last' }));
  failing.start();
  failing.complete('a');
  expect(failing.fail('last').at(-1)).toBe('RunFailed');
  const admit = { rules: [{ allow: false }] };
  const refused = new Scenario(buildPlan([{ stepId: 'a' }, { stepId: 'last', admit }], { finalStep: 'last' }));
  refused.start();
  expect(refused.complete('a').slice(2)).toEqual([
    'PolicyAdmitEvaluated last',
    'StepSkipped last',
    'NextEvaluated last',
    'RunCompleted',
  ]);
  const broken = new Scenario(
    buildPlan([{ stepId: 'a' }, { stepId: 'last', admit: { rules: [{ when: '{{ nope }}', allow: true }] } }], {
      finalStep: 'last',
    }),
  );
  broken.start();
  expect(broken.fail('a').at(-1)).toBe('RunFailed');
  expect(broken.log.filter((event) => event.eventType === 'PolicyAdmitEvaluated')).toHaveLength(1);
});

test('ES-1.3b a step retry that the policy orders is the next logical attempt, after its delay', () => {
  const failure = { retry: { attempts: 3, delay: 5, backoff: 'exponential' as const } };
  const run = new Scenario(buildPlan([{ stepId: 'a', failure, next: ['b'] }, { stepId: 'b' }]));
  run.start();
  expect(run.fail('a')).toEqual(['StepFailed a', 'StepScheduled a (attempt 2)', 'StepDelayed a/wait:1 (attempt 2)']);
  expect(run.state.open.get('a')).toMatchObject({ status: 'PENDING', attempt: 2, dueAt: '2026-01-01T00:00:05.000Z' });
  expect([substatus(run.state), runWord('RUNNING', substatus(run.state))]).toEqual(['RETRYING', 'failed_retryable']);
  run.wait(5000);
  expect(run.fail('a')).toContain('StepScheduled a (attempt 3)');
  expect(run.state.open.get('a')?.dueAt).toBe('2026-01-01T00:00:15.000Z');
  run.wait(10_000);
  expect(run.complete('a')).toEqual(['StepCompleted a (attempt 3)', 'NextEvaluated a (attempt 3)', 'StepScheduled b']);
  expect(run.snapshot.failedSteps).toBe(0);
});

test('ES-1.3a a redelivery raises the engine attempt and leaves the logical attempt and the key alone', () => {
  const run = new Scenario(buildPlan([{ stepId: 'a' }]));
  run.start();
  const begin = (engineAttemptId: number) =>
    run.store([{ eventType: 'StepStarted', stepId: 'a', logicalAttemptId: 1, engineAttemptId }]);
  expect(begin(1)).toHaveLength(1);
  expect(begin(2)).toEqual([]);
  const settled = { status: 'completed' } as const;
  run.when({ type: 'stepSettled', stepId: 'a', attempt: 1, engineAttempt: 2, settled });
  expect(run.snapshot.steps[0]).toMatchObject({ logicalAttemptId: 1, engineAttemptId: 2, status: 'SUCCESS' });
});

test('after the last attempt the arcs decide, and templates may say how many there are', () => {
  const failure = { retry: { attempts: '{{ workload.tries }}', delay: 0 } };
  const run = new Scenario(
    buildPlan([{ stepId: 'a', failure, next: onFailure('b') }, { stepId: 'b' }], { workload: { tries: 2 } }),
  );
  run.start();
  expect(run.fail('a')).toEqual(['StepFailed a', 'StepScheduled a (attempt 2)']);
  expect(run.fail('a')).toContain('StepScheduled b');
});

test('RQ-6.2b a retry without a delay waits about 5 s, then 30 s', () => {
  const run = new Scenario(buildPlan([{ stepId: 'a', failure: { retry: { attempts: 9 } } }]));
  run.start();
  run.fail('a');
  expect(run.state.open.get('a')?.dueAt).toBe('2026-01-01T00:00:05.000Z');
  run.fail('a');
  expect(run.state.open.get('a')?.dueAt).toBe('2026-01-01T00:00:30.000Z');
});

test('RQ-6.2a the attempt, the last error and the next eligible time of a retry are visible', () => {
  const failure = { retry: { attempts: 9, delay: 60, backoff: 'exponential' as const, maxDelay: 90 } };
  const run = new Scenario(buildPlan([{ stepId: 'a', failure }]));
  run.start();
  run.fail('a', { message: 'first' });
  run.fail('a', { message: 'second' });
  // Twice 60 s would be two minutes: the cap holds.
  expect(run.state.open.get('a')).toMatchObject({
    attempt: 3,
    dueAt: '2026-01-01T00:01:30.000Z',
    delayed: { reason: 'RETRY', error: { message: 'second' } },
  });
});

test('the jitter comes with the command', () => {
  const run = new Scenario(buildPlan([{ stepId: 'a', failure: { retry: { attempts: 9 } } }]));
  run.start();
  run.begin('a');
  const settled = { status: 'failed', error: { category: 't', code: 'X', message: '', retryable: true } } as const;
  run.when({ type: 'stepSettled', stepId: 'a', attempt: 1, settled, random: 0 });
  expect(run.state.open.get('a')?.dueAt).toBe('2026-01-01T00:00:04.500Z');
});

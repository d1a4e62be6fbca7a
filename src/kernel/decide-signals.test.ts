import { expect, test } from 'vitest';
import { buildPlan } from '../testing/build-plan.ts';
import { Scenario } from '../testing/scenario.ts';
import { mustStop, openWork } from './open-work.ts';
import { substatus } from './status-words.ts';

const fanOut = () => {
  const run = new Scenario(
    buildPlan([{ stepId: 's', next: ['a', 'b'] }, { stepId: 'a', next: ['c'] }, { stepId: 'b' }, { stepId: 'c' }]),
  );
  run.start();
  run.complete('s');
  return run;
};
const lastReason = (run: Scenario) => run.log.at(-1)?.payload?.['reason'];

test('PAUSE stops scheduling at once, lets steps in flight end, and what follows is decided right after RunResumed', () => {
  const run = fanOut();
  run.begin('a');
  expect(run.signal('PAUSE')).toEqual(['SignalAccepted signal/PAUSE-8', 'RunPaused']);
  expect([run.snapshot.status, substatus(run.state)]).toEqual(['PAUSED', 'DRAINING']);
  expect(run.complete('a')).toEqual(['StepCompleted a']);
  expect([run.snapshot.status, substatus(run.state)]).toEqual(['PAUSED', undefined]);
  expect(run.signal('RESUME').slice(1)).toEqual(['RunResumed', 'NextEvaluated a', 'StepScheduled c']);
  expect(run.snapshot.status).toBe('RUNNING');
  expect(run.signal('PAUSE').at(-1)).toBe('RunPaused (attempt 2)');
  expect(run.signal('RESUME').at(-1)).toBe('RunResumed (attempt 2)');
});

test('ES-6c RESUME never schedules a completed step again', () => {
  const run = fanOut();
  run.complete('a');
  run.signal('PAUSE');
  run.signal('RESUME');
  expect(run.log.filter((event) => event.eventType === 'StepScheduled' && event.stepId === 'a')).toHaveLength(1);
  expect(openWork(run.state).map((unit) => unit.stepId)).toEqual(['b', 'c']);
});

test('while a run is paused, due timers and approvals are recorded as ended and failures are not acted on', () => {
  const run = fanOut();
  run.begin('a');
  run.begin('b');
  run.when({ type: 'park', stepId: 'a', attempt: 1, kind: 'approval' });
  run.signal('PAUSE');
  expect(run.when({ type: 'waitEnded', entity: 'a/wait:1', outcome: 'rejected' })).toEqual(['WaitEnded a/wait:1']);
  expect(run.fail('b')).toEqual(['StepFailed b']);
  expect(run.signal('RESUME').slice(1)).toEqual(['RunResumed', 'StepFailed a', 'NextEvaluated a', 'RunFailed']);
});

test('the gate before a write parks a step during a pause, and RESUME lets it go on', () => {
  const run = fanOut();
  run.begin('a');
  run.signal('PAUSE');
  run.when({ type: 'park', stepId: 'a', attempt: 1, kind: 'hold' });
  expect(substatus(run.state)).toBeUndefined();
  expect(run.signal('RESUME').slice(1)).toEqual(['RunResumed', 'WaitEnded a/wait:1']);
  expect(run.state.open.get('a')?.eligible).toBe(true);
});

test('a loop hands out nothing while the run is paused, and goes on after it', () => {
  const loop = { in: [1, 2, 3], iterator: 'x', mode: 'parallel' as const, maxInFlight: 1 };
  const run = new Scenario(buildPlan([{ stepId: 'each', loop }]));
  run.start();
  run.loop('each');
  run.beginIteration('each', 0);
  run.signal('PAUSE');
  expect(substatus(run.state)).toBe('DRAINING');
  expect(run.iterate('each', 0)).toEqual(['LoopIterationDone each/0']);
  expect(run.signal('RESUME').slice(1)).toEqual(['RunResumed', 'LoopIterationScheduled each/1']);
});

test('WE-1f CANCEL: nothing new starts, scheduled steps are skipped, running ones end with CANCELLED, then the run is cancelled', () => {
  const run = fanOut();
  run.begin('a');
  expect(run.signal('CANCEL').slice(1)).toEqual(['StepSkipped b']);
  expect(mustStop(run.state)).toBe(true);
  expect(run.fail('a', { code: 'CANCELLED', category: 'cancelled' })).toEqual(['StepFailed a', 'RunCancelled']);
  expect(run.snapshot.status).toBe('CANCELLED');
  expect(run.log.at(-1)?.payload).toMatchObject({ by: 'ann' });
});

test('CANCEL ends at the latest when the grace is over, also for loops and waits', () => {
  const loop = { in: [1, 2, 3], iterator: 'x', mode: 'parallel' as const, maxInFlight: 2 };
  const run = new Scenario(
    buildPlan([{ stepId: 's', next: ['each', 'b'] }, { stepId: 'each', loop }, { stepId: 'b' }]),
  );
  run.start();
  run.complete('s');
  run.loop('each');
  run.beginIteration('each', 0);
  run.begin('b');
  run.when({ type: 'park', stepId: 'b', attempt: 1, kind: 'timer', dueAt: run.now });
  expect(run.signal('CANCEL').slice(1)).toEqual(['LoopIterationFailed each/1', 'WaitEnded b/wait:1', 'StepFailed b']);
  expect(run.when({ type: 'cancelGraceOver' })).toEqual([
    'LoopIterationFailed each/0',
    'StepFailed each',
    'RunCancelled',
  ]);
  expect(run.ask({ type: 'stepSettled', stepId: 'b', attempt: 1, settled: { status: 'completed' } })).toMatchObject({
    reject: { code: 'INVALID_TRANSITION' },
  });
});

test('CANCEL works before the start, while paused, and only once', () => {
  const early = new Scenario(buildPlan([{ stepId: 'a' }]));
  early.request();
  expect(early.signal('CANCEL').at(-1)).toBe('RunCancelled');
  const paused = fanOut();
  paused.begin('a');
  paused.signal('PAUSE');
  paused.signal('CANCEL');
  for (const late of ['CANCEL', 'RESUME', 'PAUSE'])
    expect(paused.signal(late)).toEqual([expect.stringMatching(/^SignalRejected/)]);
  expect(paused.complete('a')).toEqual(['StepCompleted a', 'RunCancelled']);
});

test('the final step does not run after a cancellation: nothing new starts', () => {
  const run = new Scenario(buildPlan([{ stepId: 'a' }, { stepId: 'last' }], { finalStep: 'last' }));
  run.start();
  expect(run.signal('CANCEL').slice(1)).toEqual(['StepSkipped a', 'RunCancelled']);
});

test('SKIP_STEP skips an attempt that is PENDING and nothing else, and its arcs see step.skipped', () => {
  const run = fanOut();
  expect(run.signal('SKIP_STEP', 'a').slice(1)).toEqual(['StepSkipped a', 'NextEvaluated a', 'StepScheduled c']);
  run.begin('b');
  expect(run.signal('SKIP_STEP', 'b')[0]).toMatch(/^SignalRejected/);
  expect(lastReason(run)).toContain('RUNNING');
  expect(run.signal('SKIP_STEP', 'nowhere')[0]).toMatch(/^SignalRejected/);
});

test('ES-1.3b RETRY_STEP is the next logical attempt of a failed step, and revives what was aborted with it', () => {
  const run = fanOut();
  run.begin('b');
  run.complete('a');
  run.fail('c');
  expect(run.snapshot.steps.find((step) => step.stepId === 'c')?.status).toBe('FAILED');
  expect(run.signal('RETRY_STEP', 'c').slice(1)).toEqual(['StepScheduled c (attempt 2)']);
  expect(run.complete('b')).toEqual(['StepCompleted b', 'NextEvaluated b']);
  expect(run.complete('c').at(-1)).toBe('RunCompleted');
  const aborted = fanOut();
  aborted.complete('a');
  aborted.begin('b');
  expect(aborted.fail('b')).toEqual(['StepFailed b', 'NextEvaluated b', 'StepSkipped c', 'RunFailed']);
});

test('RETRY_STEP while others are in flight schedules the aborted siblings again too', () => {
  const run = new Scenario(
    buildPlan([{ stepId: 's', next: ['a', 'b', 'c'] }, { stepId: 'a' }, { stepId: 'b' }, { stepId: 'c' }]),
  );
  run.start();
  run.complete('s');
  run.begin('c');
  expect(run.fail('a')).toEqual(['StepFailed a', 'NextEvaluated a', 'StepSkipped b']);
  expect(run.signal('RETRY_STEP', 'a').slice(1)).toEqual([
    'StepScheduled a (attempt 2)',
    'StepScheduled b (attempt 2)',
  ]);
  for (const step of ['a', 'b']) run.complete(step);
  expect(run.complete('c').at(-1)).toBe('RunCompleted');
});

test('RETRY_STEP is refused for a step that did not fail, or whose failure was handled', () => {
  const run = fanOut();
  expect(run.signal('RETRY_STEP', 'a')[0]).toMatch(/^SignalRejected/);
  expect(run.signal('RETRY_STEP')[0]).toMatch(/^SignalRejected/);
});

test('a signal that is denied, unknown or late is rejected with its reason and changes nothing else', () => {
  const run = fanOut();
  const denied = { code: 'ROLE', reason: 'Operators may not.' };
  const events = run.when({ type: 'signal', signalId: 'x', signalType: 'PAUSE', denied });
  expect(events).toEqual(['SignalRejected signal/x']);
  expect(run.log.at(-1)?.payload).toMatchObject({
    rejectedBy: 'authorization',
    code: 'ROLE',
    reason: 'Operators may not.',
  });
  expect(run.signal('UPDATE_TARGET')[0]).toMatch(/^SignalRejected/);
  expect(run.log.at(-1)?.payload).toMatchObject({ rejectedBy: 'validation', code: 'SIGNAL_REJECTED' });
  run.complete('a');
  run.complete('b');
  run.complete('c');
  expect(run.signal('PAUSE')[0]).toMatch(/^SignalRejected/);
  expect(run.snapshot.status).toBe('COMPLETED');
});

test('the same signal twice is one decision', () => {
  const run = fanOut();
  expect(run.signal('PAUSE', undefined, 'once')).toHaveLength(2);
  expect(run.signal('PAUSE', undefined, 'once')).toEqual([]);
});

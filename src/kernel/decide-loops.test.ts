import { expect, test } from 'vitest';
import { buildPlan, type ShortStep } from '../testing/build-plan.ts';
import { Scenario } from '../testing/scenario.ts';
import { engineState } from './compile-plan.ts';
import { fold } from './evolve.ts';
import { loopsToEnd, openWork } from './open-work.ts';
import { toJson } from './state-json.ts';

const loopStep = (loop: Partial<NonNullable<ShortStep['loop']>>, more: Partial<ShortStep> = {}): ShortStep => ({
  stepId: 'each',
  loop: { in: '{{ workload.items }}', iterator: 'item', mode: 'sequential', ...loop },
  ...more,
});
const begin = (step: ShortStep, items: unknown) => {
  const run = new Scenario(
    buildPlan([{ ...step, next: step.next ?? ['after'] }, { stepId: 'after' }], { workload: { items } }),
  );
  run.start();
  return run;
};

test('a sequential loop hands out one index after the other and ends with the list of results', () => {
  const run = begin(loopStep({}), ['x', 'y']);
  expect(run.loop('each')).toEqual(['LoopStarted each', 'LoopIterationScheduled each/0']);
  expect(run.iterate('each', 0, 'X')).toEqual(['LoopIterationDone each/0', 'LoopIterationScheduled each/1']);
  expect(run.iterate('each', 1, 'Y')).toEqual(['LoopIterationDone each/1']);
  expect(loopsToEnd(run.state)).toEqual([{ stepId: 'each', attempt: 1 }]);
  expect(run.endLoop('each', ['X', 'Y'])).toEqual([
    'LoopDone each',
    'StepCompleted each',
    'NextEvaluated each',
    'StepScheduled after',
  ]);
  expect(run.log.find((event) => event.eventType === 'LoopStarted')?.payload).toEqual({
    mode: 'sequential',
    iterator: 'item',
    count: 2,
    list: { value: ['x', 'y'] },
    maxInFlight: 1,
  });
});

test('a parallel loop keeps max_in_flight iterations under way, in whatever order they end', () => {
  const run = begin(loopStep({ mode: 'parallel', maxInFlight: '{{ 1 + 1 }}' }), [1, 2, 3, 4]);
  expect(run.loop('each').slice(1)).toEqual(['LoopIterationScheduled each/0', 'LoopIterationScheduled each/1']);
  expect(run.iterate('each', 1)).toEqual(['LoopIterationDone each/1', 'LoopIterationScheduled each/2']);
  expect(run.iterate('each', 2)).toEqual(['LoopIterationDone each/2', 'LoopIterationScheduled each/3']);
  expect(run.iterate('each', 3)).toEqual(['LoopIterationDone each/3']);
  expect(run.iterate('each', 0)).toEqual(['LoopIterationDone each/0']);
  expect(run.endLoop('each', [1, 2, 3, 4]).slice(0, 2)).toEqual(['LoopDone each', 'StepCompleted each']);
});

test('an empty list ends the loop at once, and something that is no list is LOOP_NOT_A_LIST', () => {
  expect(begin(loopStep({}), []).loop('each')).toEqual([
    'LoopStarted each',
    'LoopDone each',
    'StepCompleted each',
    'NextEvaluated each',
    'StepScheduled after',
  ]);
  const run = begin(loopStep({}, { next: { mode: 'exclusive', arcs: [] } }), 'text');
  expect(run.loop('each').at(-1)).toBe('RunFailed');
  expect(run.snapshot.rootCause?.error.code).toBe('LOOP_NOT_A_LIST');
});

test('fail_fast stops handing out and fails the step when nothing is under way; best_effort runs all and counts', () => {
  const fast = begin(
    loopStep({ mode: 'parallel', maxInFlight: 2 }, { next: { mode: 'exclusive', arcs: [] } }),
    [1, 2, 3],
  );
  fast.loop('each');
  expect(fast.iterate('each', 0, new Error('no'))).toEqual(['LoopIterationFailed each/0']);
  expect(fast.iterate('each', 1)).toEqual([
    'LoopIterationDone each/1',
    'LoopDone each',
    'StepFailed each',
    'NextEvaluated each',
    'RunFailed',
  ]);
  expect(fast.snapshot.rootCause?.error).toMatchObject({
    code: 'LOOP_ITERATIONS_FAILED',
    message: expect.stringMatching(/^1 of 2 iterations failed \(0\)\. The first: ./),
  });
  const arcs = [{ step: 'after', args: { failed: '{{ each.failed }}', count: '{{ event.count }}' } }];
  const best = begin(loopStep({}, { failure: { mode: 'best_effort' }, next: { mode: 'exclusive', arcs } }), [1, 2]);
  best.loop('each');
  expect(best.iterate('each', 0, new Error('no'))).toContain('LoopIterationScheduled each/1');
  best.iterate('each', 1);
  expect(best.endLoop('each', [null, 1])).toContain('StepScheduled after');
  expect(best.state.open.get('after')?.args).toEqual({ failed: 1, count: 2 });
});

test('in a sequence the next iteration sees what the one before wrote to ctx', () => {
  const run = begin(loopStep({}), [1, 2]);
  run.loop('each');
  run.iterate('each', 0, null, { total: 1 });
  expect(run.state.ctx).toEqual({ total: 1 });
  run.iterate('each', 1, null, { total: 3 });
  expect(run.state.ctx).toEqual({ total: 3 });
});

test('side by side, equal writes to ctx are kept apart until the loop ends, and different ones are CTX_CONFLICT', () => {
  const parallel = loopStep({ mode: 'parallel' }, { next: { mode: 'exclusive', arcs: [] } });
  const equal = begin(parallel, [1, 2]);
  equal.loop('each');
  equal.iterate('each', 1, null, { flag: { a: 1, b: 2 } });
  expect(equal.state.ctx).toEqual({});
  equal.iterate('each', 0, null, { flag: { b: 2, a: 1 }, mine: 0 });
  expect(equal.endLoop('each')).toEqual([
    'LoopDone each',
    'StepCompleted each',
    'CtxPatched each/ctx:1',
    'NextEvaluated each',
    'RunCompleted',
  ]);
  expect(equal.state.ctx).toEqual({ flag: { a: 1, b: 2 }, mine: 0 });
  const clash = begin(parallel, [1, 2]);
  clash.loop('each');
  clash.iterate('each', 0, null, { flag: 1 });
  expect(clash.iterate('each', 1, null, { flag: 2 }).at(-1)).toBe('RunFailed');
  expect(clash.snapshot.rootCause?.error).toMatchObject({ code: 'CTX_CONFLICT' });
  expect(clash.state.ctx).toEqual({});
});

test('the step’s own set runs when the loop ends and sees its count and result', () => {
  const run = begin(loopStep({}, { set: { 'ctx.total': '{{ each.count }}', 'ctx.first': '{{ each[0] }}' } }), ['x']);
  run.loop('each');
  run.iterate('each', 0, 'X');
  expect(run.endLoop('each', ['X'])).toContain('CtxPatched each/ctx:1');
  expect(run.state.ctx).toEqual({ total: 1, first: 'X' });
  const broken = begin(loopStep({}, { set: { 'ctx.x': '{{ nope }}' }, next: { mode: 'exclusive', arcs: [] } }), ['x']);
  broken.loop('each');
  broken.iterate('each', 0);
  // The assignment fails before the step is recorded as completed.
  expect(broken.endLoop('each')).toEqual(['LoopDone each', 'StepFailed each', 'NextEvaluated each', 'RunFailed']);
});

test('a cursor hands out frames until one finds no more work', () => {
  const run = begin(loopStep({ mode: 'cursor', maxInFlight: 2 }), []);
  run.begin('each');
  expect(run.when({ type: 'loopResolved', stepId: 'each', attempt: 1 })).toEqual([
    'LoopStarted each',
    'LoopIterationScheduled each/0',
    'LoopIterationScheduled each/1',
  ]);
  expect(run.iterate('each', 0)).toContain('LoopIterationScheduled each/2');
  const exhausted = { status: 'completed', exhausted: true } as const;
  expect(run.when({ type: 'iterationSettled', stepId: 'each', attempt: 1, index: 1, settled: exhausted })).toEqual([
    'LoopIterationDone each/1',
  ]);
  expect(loopsToEnd(run.state)).toEqual([]);
  expect(run.iterate('each', 2)).toEqual(['LoopIterationDone each/2']);
  expect(loopsToEnd(run.state)).toHaveLength(1);
  expect(run.endLoop('each')).toContain('StepCompleted each');
});

test('iterations that are recorded out of order, late or twice leave the same loop', () => {
  const run = begin(loopStep({ mode: 'parallel', maxInFlight: 1 }), [1, 2, 3]);
  run.loop('each');
  // Another worker was handed index 2 and told its end before index 1 was heard of.
  run.store([
    { eventType: 'LoopIterationDone', stepId: 'each', entity: 'each/2', logicalAttemptId: 1, payload: { index: 2 } },
  ]);
  expect(openWork(run.state).map((unit) => (unit.kind === 'iteration' ? unit.index : unit.kind))).toEqual([0, 1]);
  expect(
    run.ask({ type: 'iterationSettled', stepId: 'each', attempt: 1, index: 2, settled: { status: 'completed' } }),
  ).toMatchObject({
    reject: { code: 'INVALID_TRANSITION' },
  });
  expect(run.iterate('each', 1)).toEqual(['LoopIterationDone each/1']);
  expect(run.iterate('each', 0)).toEqual(['LoopIterationDone each/0']);
  expect(run.endLoop('each')).toContain('StepCompleted each');
});

test('an index below one that was recorded first is open, and its event is still to be written', () => {
  const run = begin(loopStep({ mode: 'parallel', maxInFlight: 2 }), [1, 2]);
  run.loop('each');
  const isFirst = ({ eventType, entity }: { eventType: string; entity?: string }): boolean =>
    eventType === 'LoopIterationScheduled' && entity === 'each/0';
  const open = (log: typeof run.log) => fold(engineState(run.plan, 'run-1'), log).loops.get('each')?.open;
  const without = open(run.log.filter((event) => !isFirst(event)));
  expect(without?.get(0)).toMatchObject({ scheduled: false, started: false });
  expect(without?.get(1)).toMatchObject({ scheduled: true, started: false });
  expect(open(run.log)?.get(0)).toMatchObject({ scheduled: true });
});

test('a loop is counters and open indexes: its state does not grow with the iterations that ended', () => {
  const items = Array.from({ length: 500 }, (_, i) => i);
  const run = begin(loopStep({ mode: 'parallel', maxInFlight: 4 }), items);
  run.loop('each');
  const lean = () => JSON.stringify(toJson(fold(engineState(run.plan, 'run-1'), run.log))).length;
  run.iterate('each', 0, 'x'.repeat(1000));
  const early = lean();
  for (let i = 1; i < 400; i++) run.iterate('each', i, 'x'.repeat(1000));
  expect(lean() - early).toBeLessThan(100);
});

test('an uncatchable failure of one iteration fails the step even if it is best_effort', () => {
  const run = begin(loopStep({}, { failure: { mode: 'best_effort' }, next: { mode: 'exclusive', arcs: [] } }), [1, 2]);
  run.loop('each');
  const error = { category: 'policy', code: 'POLICY_DENIED', message: 'no', retryable: false };
  const settled = { status: 'failed', error } as const;
  expect(run.when({ type: 'iterationSettled', stepId: 'each', attempt: 1, index: 0, settled }).at(-1)).toBe(
    'RunFailed',
  );
  expect(run.snapshot.rootCause?.error.code).toBe('POLICY_DENIED');
});

test('an earlier failure does not hide one that nothing may catch', () => {
  const run = begin(loopStep({ mode: 'parallel' }), [1, 2]);
  run.loop('each');
  run.iterate('each', 0, new Error('ordinary'));
  const error = { category: 'policy', code: 'POLICY_DENIED', message: 'no', retryable: false };
  const settled = { status: 'failed', error } as const;
  // The arc to `after` has no condition and would take any other failure.
  expect(run.when({ type: 'iterationSettled', stepId: 'each', attempt: 1, index: 1, settled }).at(-1)).toBe(
    'RunFailed',
  );
});

test('a retry of a loop step runs the loop again as a new attempt', () => {
  const run = begin(loopStep({}, { failure: { retry: { attempts: 2, delay: 0 } } }), [1]);
  run.loop('each');
  expect(run.iterate('each', 0, new Error('no')).at(-1)).toBe('StepScheduled each (attempt 2)');
  expect(run.loop('each')).toEqual(['LoopStarted each (attempt 2)', 'LoopIterationScheduled each/0 (attempt 2)']);
  run.iterate('each', 0);
  expect(run.endLoop('each')).toContain('StepScheduled after');
});

test('a loop that failed names the iterations that failed first', () => {
  const items = Array.from({ length: 9 }, (_, i) => i);
  const step = loopStep({ mode: 'parallel', maxInFlight: 9 }, { next: { mode: 'exclusive', arcs: [] } });
  const run = begin(step, items);
  run.loop('each');
  // 3 and 7 are done; 8 fails first.
  for (const i of items.toReversed()) run.iterate('each', i, ...(i % 4 === 3 ? [] : [new Error('no')]));
  expect(run.snapshot.rootCause?.error.message).toMatch(/^7 of 9 iterations failed \(2, 4, 5, 6, 8, \.\.\.\)\./);
});

import { expect, test } from 'vitest';
import { buildPlan } from '../testing/build-plan.ts';
import { Scenario } from '../testing/scenario.ts';

test('a linear run: each step is routed and the next one scheduled in the same decision, and the last one ends it', () => {
  const run = new Scenario(buildPlan([{ stepId: 'a', next: ['b'] }, { stepId: 'b' }]));
  expect(run.start()).toEqual(['RunStarted', 'StepScheduled a']);
  expect(run.complete('a', 1)).toEqual(['StepCompleted a', 'NextEvaluated a', 'StepScheduled b']);
  expect(run.complete('b', 2)).toEqual(['StepCompleted b', 'NextEvaluated b', 'RunCompleted']);
  expect(run.snapshot).toMatchObject({ status: 'COMPLETED', failedSteps: 0 });
  expect(run.log.at(-1)?.payload).toMatchObject({ result: { value: 2 } });
});

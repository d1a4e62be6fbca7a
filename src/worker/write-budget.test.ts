import { expect, test } from 'vitest';
import { WriteBudget } from './write-budget.ts';

test('ES-5a ES-5d the budget is 3000 ms, StepStarted fails open and the ends of a step never do, unless configured', () => {
  const budget = new WriteBudget();
  expect(budget.millis).toBe(3000);
  expect(budget.failsOpen(['StepStarted'])).toBe(true);
  expect(budget.failsOpen(['StepStarted', 'TaskStarted'])).toBe(false);
  expect(budget.failsStep(['TaskDone', 'StepCompleted'])).toBe(true);
  expect(budget.failsStep(['StepFailed'])).toBe(true);
  expect(budget.failsStep(['TaskDone'])).toBe(false);
  const own = new WriteBudget({ writeLatencyBudgetMs: 10, failOpenForEventClass: ['TaskStarted'], neverFailOpen: [] });
  expect([own.millis, own.failsOpen(['TaskStarted']), own.failsStep(['StepCompleted'])]).toEqual([10, true, false]);
});

test('ES-5d a type in both lists, an unknown one and a budget that is none are refused', () => {
  const code = { code: 'CONFIG_INVALID' };
  const make = (options: object) => () => new WriteBudget(options);
  expect(make({ failOpenForEventClass: ['StepCompleted'] })).toThrow(expect.objectContaining(code));
  expect(make({ neverFailOpen: ['Nonsense'] })).toThrow(expect.objectContaining(code));
  expect(make({ writeLatencyBudgetMs: 0 })).toThrow(expect.objectContaining(code));
});

test('ES-5a a write that takes longer than the budget is told so, and goes on', async () => {
  const budget = new WriteBudget({ writeLatencyBudgetMs: 5 });
  let done = false;
  const slow = new Promise<string>((resolve) =>
    setTimeout(() => {
      done = true;
      resolve('written');
    }, 30),
  );
  expect(await budget.within(slow)).toBe('late');
  expect(done).toBe(false);
  expect(await slow).toBe('written');
  expect(await budget.within(Promise.resolve('at once'))).toBe('at once');
});

import { expect, test } from 'vitest';
import { buildPlan } from '../testing/build-plan.ts';
import { expectedSteps } from './expected-steps.ts';
import { RunTree, type StepMark } from './run-tree.ts';

/** A run that has come so far. */
function tree(marks: Readonly<Record<string, StepMark>>): RunTree {
  const run = new RunTree('r');
  for (const [stepId, mark] of Object.entries(marks)) {
    run.steps.set(stepId, {
      stepId,
      mark,
      attempt: 1,
      tries: 1,
      startedAt: undefined,
      durationMs: undefined,
      loop: undefined,
      reused: undefined,
      note: undefined,
      children: [],
    });
  }
  return run;
}

const arcs = (mode: 'exclusive' | 'inclusive', ...names: string[]) => ({
  mode,
  arcs: names.map((step) => ({ step, when: '{{ true }}' })),
});

test('a line has as many steps as the plan, from the beginning on', () => {
  const plan = buildPlan([{ stepId: 'a', next: ['b'] }, { stepId: 'b', next: ['c'] }, { stepId: 'c' }]);
  expect(expectedSteps(plan, tree({}))).toBe(3);
  expect(expectedSteps(plan, tree({ a: 'done', b: 'running' }))).toBe(3);
  expect(expectedSteps(plan, tree({ a: 'done', b: 'done', c: 'done' }))).toBe(3);
});

test('a branch is known once it is behind', () => {
  const plan = buildPlan([
    { stepId: 'a', next: arcs('exclusive', 'b', 'c') },
    { stepId: 'b', next: ['d'] },
    { stepId: 'c' },
    { stepId: 'd' },
  ]);
  expect(expectedSteps(plan, tree({ a: 'running' }))).toBeUndefined();
  expect(expectedSteps(plan, tree({ a: 'done', b: 'running' }))).toBe(3);
  expect(expectedSteps(plan, tree({ a: 'done', c: 'waiting' }))).toBe(2);
});

test('branches that meet in a join are counted once, and twice nowhere else: there it is not known', () => {
  const meet = (join: boolean) =>
    buildPlan([
      { stepId: 'a', next: ['b', 'c'] },
      { stepId: 'b', next: ['d'] },
      { stepId: 'c', next: ['d'] },
      { stepId: 'd', ...(join ? { join: 'all' as const } : {}) },
    ]);
  expect(expectedSteps(meet(true), tree({ a: 'running' }))).toBe(4);
  expect(expectedSteps(meet(true), tree({ a: 'done', b: 'done', c: 'running', d: 'waiting' }))).toBe(4);
  expect(expectedSteps(meet(false), tree({ a: 'running' }))).toBeUndefined();
});

test('a cycle has no number, also when its condition is the only arc', () => {
  const plan = buildPlan([
    { stepId: 'a', next: ['b'] },
    { stepId: 'b', next: arcs('inclusive', 'a') },
  ]);
  expect(expectedSteps(plan, tree({ a: 'running' }))).toBeUndefined();
  expect(expectedSteps(plan, tree({ a: 'done', b: 'running' }))).toBeUndefined();
});

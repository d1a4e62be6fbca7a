import type { Plan, PlanStep } from '../contracts/plan.ts';
import { stepNameOf } from '../kernel/entity-path.ts';
import type { RunTree } from './run-tree.ts';

/**
 * How many steps the run will have had at its end, where the plan leaves no doubt: from the steps that are open now every way is
 * a straight one. Behind a branch that is still to be decided, and in a cycle, nobody knows.
 */
export function expectedSteps(plan: Plan, tree: RunTree): number | undefined {
  const planned = new Map(plan.steps.map((step) => [step.stepId, step]));
  const lines = [...tree.steps.values()];
  const isOpen = (name: string): boolean =>
    lines.some(({ stepId, mark }) => stepNameOf(stepId) === name && (mark === 'waiting' || mark === 'running'));
  const ahead = new Set<string>();
  const open = [...new Set(lines.map(({ stepId }) => stepNameOf(stepId)))].filter(isOpen);
  if (lines.length === 0) open.push(plan.entryStep);
  const queue = [...open];
  for (let name = queue.pop(); name !== undefined; name = queue.pop()) {
    const step = planned.get(name);
    if (!step || isBranch(step)) return undefined;
    for (const { step: next } of step.next?.arcs ?? []) {
      // Met again: a cycle, or a second instance; only a join is one step for all who come.
      const isKnown = ahead.has(next) || tree.steps.has(next);
      if (isKnown && (planned.get(next)?.join !== 'all' || (tree.steps.has(next) && !isOpen(next)))) return undefined;
      if (ahead.has(next)) continue;
      ahead.add(next);
      queue.push(next);
    }
  }
  const unseen = [...ahead].filter((name) => !tree.steps.has(name)).length;
  return lines.length + unseen + (lines.length === 0 ? 1 : 0);
}

/** A single arc with a condition usually asks whether the step went well; only where there are several is there a choice. */
function isBranch({ next }: PlanStep): boolean {
  if (!next || next.arcs.length < 2) return false;
  return next.mode === 'exclusive' || next.arcs.some(({ when }) => when !== undefined);
}

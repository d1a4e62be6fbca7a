import type { Plan } from '../contracts/plan.ts';

/**
 * The steps that can have more than one instance in a run: those that more than one arc leads to, those on a cycle,
 * and everything behind them. For all others "the nearest ancestor" and "the only one" are the same.
 */
export function multiInstanceNames(plan: Plan): ReadonlySet<string> {
  const targets = new Map<string, string[]>(
    plan.steps.map((step) => [step.stepId, (step.next?.arcs ?? []).map((arc) => arc.step)]),
  );
  const incoming = new Map<string, number>();
  for (const arcs of targets.values()) for (const to of arcs) incoming.set(to, (incoming.get(to) ?? 0) + 1);
  // The entry has a token of its own besides those that arcs bring.
  incoming.set(plan.entryStep, (incoming.get(plan.entryStep) ?? 0) + 1);
  const multi = new Set<string>();
  const open = [...incoming].filter(([, arcs]) => arcs > 1).map(([name]) => name);
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (multi.has(name)) continue;
    multi.add(name);
    open.push(...(targets.get(name) ?? []));
  }
  return multi;
}

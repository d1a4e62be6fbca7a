import { PLAN_SCHEMA_VERSION, type Plan, type PlanStep } from '../contracts/plan.ts';

/** A step of a test plan: a name and what is special about it. `next` may be given as names. */
export type ShortStep = Partial<Omit<PlanStep, 'next'>> & {
  readonly stepId: string;
  readonly next?: PlanStep['next'] | readonly string[];
};

/** A plan without YAML. Joins know who reaches them, as the compiler would say. */
export function buildPlan(steps: readonly ShortStep[], more: Partial<Plan> = {}): Plan {
  const full = steps.map((step, index): PlanStep => {
    const { next, ...rest } = step;
    const arcs = Array.isArray(next)
      ? { mode: 'inclusive' as const, arcs: next.map((name) => ({ step: name })) }
      : next;
    return {
      index,
      tasks: [{ name: 'task_0', kind: 'noop', with: {} }],
      reaches: [],
      ...rest,
      ...(arcs === undefined ? {} : { next: arcs as NonNullable<PlanStep['next']> }),
    };
  });
  const byName = new Map(full.map((step) => [step.stepId, step]));
  const joins = new Set(full.filter((step) => step.join).map((step) => step.stepId));
  const reached = (from: PlanStep): string[] => {
    if (joins.size === 0) return [];
    const seen = new Set<string>();
    const open = (from.next?.arcs ?? []).map((arc) => arc.step);
    for (let name = open.pop(); name !== undefined; name = open.pop()) {
      if (seen.has(name)) continue;
      seen.add(name);
      open.push(...(byName.get(name)?.next?.arcs ?? []).map((arc) => arc.step));
    }
    return [...seen].filter((name) => joins.has(name));
  };
  return {
    schemaVersion: PLAN_SCHEMA_VERSION,
    metadata: { planId: 'plan', planVersion: '1', name: 'plan' },
    entryStep: full[0]?.stepId ?? 'start',
    workload: {},
    keychain: [],
    workbook: {},
    children: [],
    ...more,
    steps: full.map((step) => ({ ...step, reaches: reached(step) })),
  };
}

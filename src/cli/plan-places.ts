import type { Plan, PlanStep } from '../contracts/plan.ts';
import type { PlanRef } from '../contracts/values.ts';
import type { EngineRuntime } from '../runtime/engine-parts.ts';
import type { Context } from './context.ts';
import type { Locate } from './run-tree.ts';

const PLACE = / \(line \d+, column \d+ of \/steps\/(\d+)((?:\/[^\s()]*)?)\)$/;

/**
 * Puts the name of the step and of its field into messages that name a place in the plan, for runs whose playbook nobody has at
 * hand any more. A plan that cannot be read leaves them as they are.
 */
export async function planPlaces({ session }: Context, runId: string): Promise<PlanPlaces> {
  const store = await session.store();
  const [first] = await store.readEvents(runId, { types: ['PlaybookExecutionRequested'], limit: 1 });
  const planRef = first?.payload?.['planRef'] as PlanRef | undefined;
  const plans = new Map<string, Plan>();
  if (planRef) {
    // A plan is read without the engine of its run, which would have to be reached.
    const runtime = await session.runtime({ work: false, engine: 'native' });
    await readPlan(runtime, planRef, plans).catch(() => {});
  }
  return { planRef, locate: (message, { sha256 }) => inWords(message, plans.get(sha256)) };
}

interface PlanPlaces {
  readonly planRef: PlanRef | undefined;
  readonly locate: Locate;
}

/** The plan and those of its sub-playbooks. */
async function readPlan({ plans: source }: EngineRuntime, ref: PlanRef, plans: Map<string, Plan>): Promise<void> {
  const open = [ref];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (plans.has(next.sha256)) continue;
    const { plan } = await source.fetch(next);
    plans.set(next.sha256, plan);
    for (const child of plan.children) open.push(await source.childRef(child));
  }
}

export function inWords(message: string, plan: Plan | undefined): string {
  const [, index, rest = ''] = PLACE.exec(message) ?? [];
  const step = plan?.steps[Number(index)];
  if (index === undefined || step === undefined) return message;
  return message.replace(PLACE, () => ` (${fieldOf(step, rest)} of step '${step.stepId}')`);
}

/** `/tasks/0/with/result` is the field `result`, `/next/arcs/1/when` the field `when` of an arc. */
function fieldOf(step: PlanStep, pointer: string): string {
  const [, kind, index, ...more] = pointer.split('/').map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
  const name = (parts: readonly string[]): string => `\`${parts.join('.')}\``;
  if (kind === 'tasks') {
    const task = step.tasks.length > 1 ? ` of task '${step.tasks[Number(index)]?.name ?? index}'` : '';
    return `${name(more[0] === 'with' ? more.slice(1) : more)}${task}`;
  }
  if (kind === 'next' && index === 'arcs') {
    const [at, ...field] = more;
    return `${name(field)} of the arc to '${step.next?.arcs[Number(at)]?.step ?? at}'`;
  }
  return name([kind, index, ...more].filter((part) => part !== undefined));
}

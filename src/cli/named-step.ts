import { AppError } from '../contracts/errors.ts';
import type { PlanRef } from '../contracts/values.ts';
import { stepNameOf } from '../kernel/entity-path.ts';
import { closestName } from '../lib/closest-name.ts';
import type { RunRow } from '../store/sql/find-run.ts';
import type { Context } from './context.ts';

/** More names than this are no help. */
const MOST_NAMES = 12;

/**
 * Refuses a step that the plan of the run does not have, with the name that was probably meant. `fetch#2` is an instance of `fetch`,
 * and `fetch/3` an iteration. Where `others` are given, the name may be one of theirs.
 */
export async function checkStepName(
  context: Context,
  run: RunRow,
  step: string,
  others: readonly RunRow[] = [],
): Promise<void> {
  const name = stepNameOf(step.split('/')[0]!);
  const all: string[] = [];
  for (const each of [run, ...others]) {
    const names = await stepNames(context, each);
    // Of a plan that cannot be read nothing can be said.
    if (names === undefined || names.includes(name)) return;
    all.push(...names);
  }
  const { runId } = run;
  const short = runId.slice(0, 8);
  const near = closestName(name, all);
  const shown = all.slice(0, MOST_NAMES).join(', ');
  const advice = near ? `; did you mean '${near}'?` : `; it has ${shown}${all.length > MOST_NAMES ? ', ...' : ''}.`;
  throw new AppError('STEP_NOT_FOUND', `Run ${short} has no step '${step}'${advice}`, { runId, step });
}

async function stepNames({ session }: Context, { runId }: RunRow): Promise<string[] | undefined> {
  const store = await session.store();
  const [first] = await store.readEvents(runId, { types: ['PlaybookExecutionRequested'], limit: 1 });
  const planRef = first?.payload?.['planRef'] as PlanRef | undefined;
  if (!planRef) return undefined;
  // A plan is read without the engine of its run, which would have to be reached.
  const runtime = await session.runtime({ work: false, engine: 'native' });
  try {
    return (await runtime.plans.fetch(planRef)).plan.steps.map(({ stepId }) => stepId);
  } catch {
    return undefined;
  }
}

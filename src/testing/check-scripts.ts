import { AppError } from '../contracts/errors.ts';
import type { Plan } from '../contracts/plan.ts';
import { didYouMean } from '../lib/closest-name.ts';

/** A script that fits nothing would never be asked, and the test that brought it would pass or fail for another reason. */
export function checkScripts(plan: Plan, keys: readonly string[]): void {
  const steps = plan.steps.map(({ stepId }) => stepId);
  const tasks = plan.steps.flatMap(({ stepId, tasks: own }) => own.map(({ name }) => `${stepId}/${name}`));
  const kinds = [...plan.steps.flatMap((step) => step.tasks), ...Object.values(plan.workbook)].map(({ kind }) => kind);
  const known = new Set([...steps, ...tasks, ...kinds]);
  for (const key of keys) {
    if (known.has(key)) continue;
    const near = didYouMean(key, known) || `; it has the steps ${steps.slice(0, 12).join(', ')}.`;
    throw new AppError(
      'STEP_NOT_FOUND',
      `No step, task (step/task) or tool of the plan '${plan.metadata.planId}' is called '${key}', so its script would never be used${near}`,
      { script: key },
    );
  }
}

import { AppError } from '../../contracts/errors.ts';
import type { StoredValue } from '../../contracts/values.ts';
import { closestName } from '../../lib/closest-name.ts';
import type { Command } from '../context.ts';
import { namedRun } from '../named-run.ts';
import { loadStored } from '../summary.ts';

export const result: Command = async (context) => {
  const { args, terminal, session } = context;
  const [name, step] = args.positionals;
  const run = await namedRun(context, name!);
  const store = await session.store();
  const types = step === undefined ? ['RunCompleted'] : ['StepCompleted', 'StepCarried', 'StepFailed', 'LoopDone'];
  let found: StoredValue | undefined;
  const steps = new Set<string>();
  for (let afterSeq = 0; ; ) {
    const page = await store.readEvents(run.runId, { afterSeq, types, limit: 1000 });
    for (const { stepId, payload, runSeq } of page) {
      afterSeq = runSeq;
      if (stepId !== undefined) steps.add(stepId);
      // Without a number the newest instance is meant.
      const isIt = step === undefined || stepId === step || stepId?.startsWith(`${step}#`);
      if (isIt) found = (payload?.['result'] as StoredValue | undefined) ?? found;
    }
    if (page.length < 1000) break;
  }
  if (!found) throw notThere(run.runId, run.status ?? 'PENDING', step, steps);
  const value = await loadStored(context, found);
  if (typeof value === 'string' && !terminal.json) terminal.print(value);
  else terminal.printJson(value);
  return 0;
};

function notThere(runId: string, status: string, step: string | undefined, steps: ReadonlySet<string>): AppError {
  const short = runId.slice(0, 8);
  if (step === undefined)
    return new AppError('RESULT_NOT_FOUND', `Run ${short} is ${status} and has no result.`, { runId });
  const near = steps.has(step) ? undefined : closestName(step, steps);
  const advice = near === undefined ? '' : `; did you mean '${near}'?`;
  return new AppError('RESULT_NOT_FOUND', `Run ${short} has no result of a step '${step}'${advice || '.'}`, {
    runId,
    step,
  });
}

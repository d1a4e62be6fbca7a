import { storedResult } from '../../runtime/run-end.ts';
import type { Command } from '../context.ts';
import { namedRun } from '../named-run.ts';
import { checkStepName } from '../named-step.ts';
import { loadStored } from '../summary.ts';

export const result: Command = async (context) => {
  const { args, terminal, session } = context;
  const [name, step] = args.positionals;
  const run = await namedRun(context, name!);
  if (step !== undefined) await checkStepName(context, run, step);
  const value = await loadStored(context, await storedResult(await session.store(), run.runId, step));
  if (typeof value === 'string' && !terminal.json) terminal.print(value);
  else terminal.printJson(value);
  return 0;
};

import { randomUUID } from 'node:crypto';
import { AppError } from '../../contracts/errors.ts';
import { isTerminal } from '../../contracts/states.ts';
import type { Command } from '../context.ts';
import { driveRun } from '../drive-run.ts';
import { namedRun } from '../named-run.ts';
import { checkStepName } from '../named-step.ts';
import { nextCommand } from '../next-command.ts';
import { planPlaces } from '../plan-places.ts';
import { taskLog } from '../task-log.ts';

export const retry: Command = async (context) => {
  const { args, terminal, session } = context;
  const from = args.text('from');
  const latest = args.choice('plan', ['same', 'latest']) === 'latest';
  if (latest && from === undefined)
    throw new AppError(
      'USAGE',
      'With another plan, --from must say where to begin: what the old steps gave may not fit.',
    );
  const old = await namedRun(context, args.positionals[0]!);
  const short = old.runId.slice(0, 8);
  if (old.status === undefined || !isTerminal(old.status))
    throw new AppError(
      'SIGNAL_REJECTED',
      `Run ${short} is ${old.status ?? 'PENDING'}: it has not ended, and only a run that has ended is retried.`,
      { runId: old.runId, next: `To go on with it: ${nextCommand(args, `resume ${short}`)}` },
    );
  if (old.status === 'COMPLETED' && from === undefined)
    throw new AppError('SIGNAL_REJECTED', `Run ${short} is COMPLETED: nothing is left to do.`, {
      runId: old.runId,
      next: `To run it again from a step: ${nextCommand(args, `retry ${short} --from STEP`)}`,
    });
  if (from !== undefined && !latest) await checkStepName(context, old, from);
  const logs = taskLog(args.has('logs'));
  const runId = randomUUID();
  const { engine } = old;
  const runtime = await session.runtime({ work: !args.has('detach'), engine, scope: { runs: [runId] }, log: logs.log });
  const planRef = latest ? await runtime.plans.childRef({ path: old.planId }) : undefined;
  await runtime.engine.retryRun(runtime.engine.refOf(old), {
    runId,
    ...(from === undefined ? {} : { from }),
    ...(planRef === undefined ? {} : { planRef }),
  });
  if (args.has('detach')) {
    if (terminal.json) terminal.printJson({ runId, retryOf: old.runId, status: 'RUNNING' });
    else terminal.print(`Run ${runId} retries ${short}.`);
    return 0;
  }
  if (!terminal.json) terminal.print(terminal.paint('dim', `run ${runId.slice(0, 8)} retries ${short}`));
  const { locate } = await planPlaces(context, runId);
  return driveRun(context, runtime, runId, { logs, locate });
};

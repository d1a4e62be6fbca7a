import { isTerminal } from '../../contracts/states.ts';
import type { Command } from '../context.ts';
import { driveRun } from '../drive-run.ts';
import { sendSignal } from '../send-signal.ts';

export const cancel: Command = async (context) => {
  const { args, terminal, session } = context;
  const reason = args.text('reason');
  const request = { type: 'CANCEL', ...(reason === undefined ? {} : { parameters: { reason } }) };
  const { runId, ref, runtime } = await sendSignal(context, args.positionals[0]!, request);
  if (args.has('detach')) {
    if (terminal.json) terminal.printJson({ runId, cancelled: true });
    else terminal.print(`Run ${runId} is being cancelled.`);
    return 0;
  }
  const { status } = await runtime.engine.getRunStatus(ref);
  // Only now: a worker that came before the signal would begin with what is to be ended.
  const worker = isTerminal(status)
    ? runtime
    : await session.runtime({ work: true, engine: runtime.engine.name, scope: { runs: [runId] } });
  await driveRun(context, worker, runId, { skipPast: true, pastPauses: true });
  return 0;
};

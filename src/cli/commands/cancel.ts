import type { Command } from '../context.ts';
import { driveRun } from '../drive-run.ts';
import { sendSignal } from '../send-signal.ts';

export const cancel: Command = async (context) => {
  const { args, terminal } = context;
  const reason = args.text('reason');
  const detach = args.has('detach');
  const request = { type: 'CANCEL', ...(reason === undefined ? {} : { parameters: { reason } }) };
  const { runId, runtime } = await sendSignal(context, args.positionals[0]!, request, !detach);
  if (detach) {
    if (terminal.json) terminal.printJson({ runId, cancelled: true });
    else terminal.print(`Run ${runId} is being cancelled.`);
    return 0;
  }
  await driveRun(context, runtime, runId, { skipPast: true, pastPauses: true });
  return 0;
};

import type { Command } from '../context.ts';
import { sendSignal } from '../send-signal.ts';

export const skipStep: Command = async (context) => {
  const { args, terminal } = context;
  const [name, stepId] = args.positionals;
  const { runId } = await sendSignal(context, name!, { type: 'SKIP_STEP', stepId: stepId! });
  if (terminal.json) terminal.printJson({ runId, stepId, skipped: true });
  else terminal.print(`Step ${stepId} of run ${runId} is skipped.`);
  return 0;
};

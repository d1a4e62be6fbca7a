import type { Command } from '../context.ts';
import { nextCommand } from '../next-command.ts';
import { sendSignal } from '../send-signal.ts';

export const pause: Command = async (context) => {
  const { args, terminal } = context;
  const { runId, runtime, ref } = await sendSignal(context, args.positionals[0]!, { type: 'PAUSE' });
  const { status, substatus, message } = await runtime.engine.getRunStatus(ref);
  if (terminal.json) terminal.printJson({ runId, status, ...(substatus === undefined ? {} : { substatus }) });
  else
    terminal.print(
      `${message ?? `Run ${runId} is ${status}.`}\nnext: ${nextCommand(args, `resume ${runId.slice(0, 8)}`)}`,
    );
  return 0;
};

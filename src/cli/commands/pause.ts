import type { Command } from '../context.ts';
import { nextCommand } from '../next-command.ts';
import { sendSignal } from '../send-signal.ts';

export const pause: Command = async (context) => {
  const { args, terminal } = context;
  const { runId, runtime, ref } = await sendSignal(context, args.positionals[0]!, { type: 'PAUSE' });
  const { status, substatus } = await runtime.engine.getRunStatus(ref);
  if (terminal.json) terminal.printJson({ runId, status, ...(substatus === undefined ? {} : { substatus }) });
  else {
    const short = runId.slice(0, 8);
    const says = substatus === 'DRAINING' ? 'is pausing: steps in flight go on to their end' : `is ${status}`;
    terminal.print(`Run ${short} ${says}.\nnext: ${nextCommand(args, `resume ${short}`)}`);
  }
  return 0;
};

import { stepNameOf } from '../../kernel/entity-path.ts';
import { readSnapshot } from '../../projector/read-snapshot.ts';
import type { Command, Context } from '../context.ts';
import { namedRun } from '../named-run.ts';
import { checkStepName } from '../named-step.ts';
import { sendSignal } from '../send-signal.ts';

export const skipStep: Command = async (context) => {
  const { args, terminal } = context;
  const [name, step] = args.positionals;
  const run = await namedRun(context, name!);
  await checkStepName(context, run, step!);
  const stepId = await waitingInstance(context, run.runId, step!);
  const { runId } = await sendSignal(context, run.runId, { type: 'SKIP_STEP', stepId });
  if (terminal.json) terminal.printJson({ runId, stepId, skipped: true });
  else terminal.print(`Step ${stepId} of run ${runId} is skipped.`);
  return 0;
};

/** In a cycle the name alone means the turn that is to come, or else the last one. */
async function waitingInstance({ session }: Context, runId: string, step: string): Promise<string> {
  const { steps } = await readSnapshot(await session.store(), runId);
  const own = steps.filter(({ stepId }) => stepId === step || stepNameOf(stepId) === step);
  return (own.find(({ status }) => status === 'PENDING') ?? own.at(-1))?.stepId ?? step;
}

import { AppError } from '../contracts/errors.ts';
import { isTerminal } from '../contracts/states.ts';
import { stepNameOf } from '../kernel/entity-path.ts';
import { readSnapshot } from '../projector/read-snapshot.ts';
import type { RunRow } from '../store/sql/find-run.ts';
import type { Context } from './context.ts';
import { nextCommand, shellWord } from './next-command.ts';

export interface Refused {
  readonly type: string;
  readonly stepId?: string | undefined;
  /** What the engine said. */
  readonly reason: string | undefined;
}

/** A signal that a run did not take: the state that it is in now, and what would work. */
export async function signalRefusal(context: Context, { runId }: RunRow, refused: Refused): Promise<AppError> {
  const store = await context.session.store();
  // Its state may be another one than when the signal was sent.
  const { status = 'PENDING' } = (await store.findRun(runId)) ?? {};
  const short = runId.slice(0, 8);
  const type = (words: string): string => nextCommand(context.args, words.replace('RUN', short));
  const make = (message: string, next: string): AppError => new AppError('SIGNAL_REJECTED', message, { runId, next });
  const { reason = `The run does not take ${refused.type} now.` } = refused;
  if (refused.type === 'SKIP_STEP') return make(...(await skipWords(context, runId, refused, isTerminal(status))));
  if (isTerminal(status)) {
    const again = `To run it again: ${type(retryWords(status))}`;
    if (refused.type === 'RESUME')
      return make(`Run ${short} is ${status}: nothing of it is left to go on with.`, again);
    const verb = refused.type === 'CANCEL' ? 'cancel' : 'pause';
    return make(`Run ${short} is ${status}: nothing of it is left to ${verb}.`, again);
  }
  const look = `See what it does now: ${type('status RUN')}`;
  if (refused.type === 'PAUSE' && status === 'PAUSED')
    return make(`Run ${short} is paused already.`, `To go on with it: ${type('resume RUN')}`);
  if (refused.type === 'PAUSE' && (status === 'PENDING' || status === 'APPROVED'))
    return make(
      `Run ${short} is ${status}: it has not begun, and cannot be paused.`,
      `To end it: ${type('cancel RUN')}`,
    );
  return make(`Run ${short} is ${status}. ${reason}`, look);
}

/** What is left of a run that completed runs again only from a step that is named. */
const retryWords = (status: string): string => `retry RUN${status === 'COMPLETED' ? ' --from STEP' : ''}`;

async function skipWords(
  { args, session }: Context,
  runId: string,
  { stepId = '' }: Refused,
  isOver: boolean,
): Promise<[string, string]> {
  const short = runId.slice(0, 8);
  const { status, steps } = await readSnapshot(await session.store(), runId);
  const name = shellWord(stepNameOf(stepId));
  const look = nextCommand(args, `status ${short}`);
  if (isOver)
    return [
      `Run ${short} is ${status}: it has no step left to skip.`,
      `To run it again from a step: ${nextCommand(args, `retry ${short} --from ${name}`)}`,
    ];
  const step = steps.find((each) => each.stepId === stepId);
  if (!step)
    return [
      `Step '${stepId}' of run ${short} is not scheduled yet: a step can be skipped between the moment in which it is scheduled and the one in which a worker begins with it.`,
      `Try again when it is waiting in ${look}; a condition of the arc that leads to it skips it always.`,
    ];
  if (step.status === 'RUNNING')
    return [
      `Step '${stepId}' of run ${short} is RUNNING: a step that has begun cannot be skipped.`,
      `Let it end, or end the run: ${nextCommand(args, `cancel ${short}`)}`,
    ];
  return [
    `Step '${stepId}' of run ${short} is ${step.status}: it has ended, and cannot be skipped.`,
    `See what is left: ${look}`,
  ];
}

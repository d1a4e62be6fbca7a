import { AppError } from '../../contracts/errors.ts';
import { isTerminal } from '../../contracts/states.ts';
import type { RunRow } from '../../store/sql/find-run.ts';
import type { Command, Context } from '../context.ts';
import { namedRun } from '../named-run.ts';
import { nextCommand } from '../next-command.ts';
import { unknownWrites } from '../open-writes.ts';
import { RunTree } from '../run-tree.ts';
import { catchUp } from '../watch-run.ts';

const ANSWERS = ['happened', 'send-again', 'give-up'] as const;
const SAYS = {
  happened: 'its write happened',
  'send-again': 'its write is sent again',
  'give-up': 'it fails',
} as const;

export const settle: Command = async (context) => {
  const { args, terminal, session } = context;
  const [name, step] = args.positionals;
  const given = ANSWERS.filter((answer) => args.has(answer));
  const [answer] = given;
  if (answer === undefined || given.length > 1)
    throw new AppError('USAGE', 'Say one of --happened, --send-again and --give-up.');
  const text = args.text('result');
  const reason = args.text('reason');
  const result = text === undefined ? undefined : parsed(text);
  const run = await namedRun(context, name!);
  const { runId, engine, status } = run;
  if (status !== undefined && isTerminal(status)) throw await hasEnded(context, run);
  const runtime = await session.runtime({ work: false, engine });
  const settled = await runtime.engine.settle(runtime.engine.refOf({ runId }), {
    answer,
    by: 'cli',
    ...(step === undefined ? {} : { step }),
    ...(result === undefined ? {} : { result }),
    ...(reason === undefined ? {} : { reason }),
  });
  if (terminal.json) {
    terminal.printJson({ runId, step: settled.step, answer });
    return 0;
  }
  terminal.print(`Settled step ${settled.step} of run ${runId}: ${SAYS[answer]}.`);
  const top = await topOf(context, runId);
  terminal.print(`next: ${nextCommand(args, `resume ${top.slice(0, 8)}`)}`);
  return 0;
};

/** Nothing waits in a run that has ended, but what it lost can be settled in a retry of it. */
async function hasEnded(context: Context, { runId, status }: RunRow): Promise<AppError> {
  const tree = new RunTree(runId);
  await catchUp(await context.session.store(), tree);
  const top = (await topOf(context, runId)).slice(0, 8);
  const short = runId.slice(0, 8);
  const lost = unknownWrites(tree).map(({ step }) => step);
  if (lost.length === 0)
    return new AppError('NOTHING_TO_SETTLE', `Run ${short} is ${status}, and no write of it has an unknown outcome.`, {
      runId,
    });
  return new AppError(
    'NOTHING_TO_SETTLE',
    `Run ${short} is ${status}: nothing of it waits any more. The write of ${lost.join(', ')}, whose outcome is unknown, is settled in a retry.`,
    { runId, next: `${nextCommand(context.args, `retry ${top}`)}, and then what it says` },
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new AppError('USAGE', `--result must be JSON, not '${text}'. A text needs its quotes: '"sent"'.`);
  }
}

/** The run that a person started: resuming it goes on with those that it waits for. */
async function topOf(context: Context, runId: string): Promise<string> {
  const run = await (await context.session.store()).findRun(runId);
  return run?.parentRunId === undefined ? runId : topOf(context, run.parentRunId);
}

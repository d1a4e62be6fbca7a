import { randomUUID } from 'node:crypto';
import { userInfo } from 'node:os';
import { locateError } from '../../compiler/locate-error.ts';
import { AppError } from '../../contracts/errors.ts';
import { RUN_ENGINES } from '../../runtime/run-engines.ts';
import { type Compiled, compiledFile, tellWarnings } from '../compiled-file.ts';
import type { Command, Context } from '../context.ts';
import { driveRun } from '../drive-run.ts';
import { nextCommand } from '../next-command.ts';
import { runOnChange } from '../run-on-change.ts';
import { unknownSets, workloadOf } from '../run-options.ts';
import type { Locate } from '../run-tree.ts';
import { taskLog } from '../task-log.ts';

export const run: Command = async (context) => {
  const { args } = context;
  if (!args.has('watch')) return start(context, await prepare(context));
  if (args.has('detach') || args.positionals[0] === '-')
    throw new AppError(
      'USAGE',
      '--watch needs a file, and runs it here: neither standard input nor --detach go with it.',
    );
  const input = args.text('input');
  return runOnChange(
    context,
    (files) => {
      if (input !== undefined) files.add(input);
      return prepare(context, (file) => files.add(file));
    },
    (prepared) => start(context, prepared),
  );
};

interface Prepared {
  readonly compiled: Compiled;
  readonly workload: Record<string, unknown> | undefined;
}

async function prepare(context: Context, onFile?: (file: string) => void): Promise<Prepared> {
  const [file] = context.args.positionals;
  onFile?.(file!);
  const workload = workloadOf(context.args);
  const compiled = await compiledFile(context, file!, onFile);
  tellWarnings(context, compiled.warnings);
  const { terminal } = context;
  for (const line of terminal.json ? [] : unknownSets(context.args, compiled.plan))
    terminal.note(`${terminal.paintError('yellow', 'warning')} ${line}`);
  return { compiled, workload };
}

async function start(context: Context, { compiled, workload }: Prepared): Promise<number> {
  const { args, terminal, session } = context;
  const settings = await session.settings();
  const logs = taskLog(args.has('logs'));
  const runId = randomUUID();
  // Other runs of the database are the business of workers: this process ends with its own.
  const scope = { runs: [runId] };
  const engine = args.choice('engine', RUN_ENGINES) ?? settings.engine;
  const runtime = await session.runtime({ work: !args.has('detach'), engine, scope, log: logs.log });
  for (const child of compiled.children.values()) await runtime.plans.keep(child);
  const planRef = await runtime.plans.keep(compiled);
  await runtime.engine.startRun(
    planRef,
    { ...settings.scope, runId, targetAdapter: engine },
    { trigger: { type: 'manual' }, triggeredBy: userName(), ...(workload === undefined ? {} : { workload }) },
  );
  // Not before: a run that was refused is none.
  if (!terminal.json) {
    const { planId, planVersion } = compiled.planRef;
    terminal.print(
      terminal.paint('dim', `run ${runId.slice(0, 8)}  ${planId} ${planVersion}  plan ${compiled.sha256.slice(0, 12)}`),
    );
  }
  if (args.has('detach')) {
    if (terminal.json) terminal.printJson({ runId, status: 'RUNNING' });
    else {
      const worker = engine === 'native' ? 'worker' : `worker --engine ${engine}`;
      terminal.print(`Workers take it up; if none runs: ${nextCommand(args, worker)}`);
      terminal.print(`next: ${nextCommand(args, `events ${runId.slice(0, 8)} --follow`)}`);
    }
    return 0;
  }
  const exit = await driveRun(context, runtime, runId, { logs, locate: locateIn(compiled) });
  // With --watch the next run has a worker of its own.
  if (args.has('watch')) await session.release(runtime);
  return exit;
}

/** The plan has no positions, so that its hash does not change with white space; whoever has just compiled it knows them. */
function locateIn(compiled: Compiled): Locate {
  const all = new Map([compiled, ...compiled.children.values()].map(({ sha256, positions }) => [sha256, positions]));
  return (message, { sha256 }) => locateError(message, all.get(sha256) ?? {});
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // An account without an entry in the system's list has no name.
    return 'unknown';
  }
}

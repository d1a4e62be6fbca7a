import { readSnapshot } from '../../projector/read-snapshot.ts';
import type { Command } from '../context.ts';
import { failureAdvice } from '../failure-advice.ts';
import { idleSteps, isUnclaimed } from '../idle-steps.ts';
import { namedRun } from '../named-run.ts';
import { nextCommand } from '../next-command.ts';
import { openWriteLines, openWrites, unknownWriteLines } from '../open-writes.ts';
import { planPlaces } from '../plan-places.ts';
import { readLog } from '../read-log.ts';
import { RunTree } from '../run-tree.ts';
import { treeLines } from '../show-tree.ts';
import { printError, printNext } from '../summary.ts';
import { clean, duration } from '../terminal.ts';
import { catchUp } from '../watch-run.ts';

export const status: Command = async (context) => {
  const { args, terminal, session } = context;
  const asOf = args.count('as-of', 1);
  const run = await namedRun(context, args.positionals[0]!);
  const store = await session.store();
  const snapshot = await readSnapshot(store, run.runId, asOf === undefined ? {} : { asOf });
  if (terminal.json) {
    const { runKey: _key, decidedSeq: _decided, ...row } = run;
    terminal.printJson({ run: row, snapshot });
    return 0;
  }
  // Only an error names a place, and reading the plan takes more than all the rest.
  const hasErrors = snapshot.failedSteps > 0 || snapshot.rootCause !== undefined;
  const places = hasErrors ? await planPlaces(context, run.runId) : undefined;
  const tree = new RunTree(run.runId, places?.locate);
  let now = Date.now();
  if (asOf === undefined) await catchUp(store, tree);
  else {
    for (const event of await readLog(context, run.runId, asOf)) {
      tree.take(event);
      now = Date.parse(event.emittedAt);
    }
  }
  const plan = tree.planRef === undefined ? '' : `  plan ${tree.planRef.sha256.slice(0, 12)}`;
  const took = snapshot.totalDurationMs === undefined ? '' : ` in ${duration(snapshot.totalDurationMs)}`;
  // Only the native engine keeps its work here.
  const idle = asOf === undefined && run.engine === 'native' ? await idleSteps(store, tree) : [];
  const isInterrupted = idle.length > 0 && snapshot.status !== 'PAUSED';
  const isWaiting = !isInterrupted && asOf === undefined && run.engine === 'native' && (await isUnclaimed(store, tree));
  for (const step of idle) {
    step.mark = 'waiting';
    step.note = isInterrupted ? 'interrupted' : 'handed back';
  }
  // The whole message stands below.
  const failed = tree.error?.stepId === undefined ? undefined : tree.steps.get(tree.error.stepId);
  if (failed?.note !== undefined) failed.note = tree.error!.code;
  const state = isInterrupted
    ? `${snapshot.status}, interrupted: nobody works on it`
    : isWaiting
      ? `${snapshot.status}, waits for a worker`
      : snapshot.status;
  terminal.print(`${terminal.paint('bold', state)}${took}  ${clean(run.planId)} ${clean(run.planVersion)}${plan}`);
  terminal.print(
    `run ${run.runId}${run.parentRunId === undefined ? '' : `  started by ${run.parentRunId}`}${run.retryOf === undefined ? '' : `  retry of ${run.retryOf}`}`,
  );
  terminal.print(`after event ${snapshot.lastEventSeq} of ${run.lastSeq}`);
  if (snapshot.metadata.inconsistent) terminal.print(terminal.paint('red', 'the log has moves that are not legal'));
  terminal.print('');
  for (const line of treeLines(tree, terminal, {
    now,
    ...(process.stdout.isTTY ? { width: terminal.columns } : {}),
  }))
    terminal.print(line);
  if (asOf === undefined && openWrites(tree).length > 0) terminal.print(['', ...openWriteLines(args, tree)].join('\n'));
  const isOver = snapshot.status === 'FAILED' || snapshot.status === 'CANCELLED';
  const advice = failureAdvice(args, tree);
  const resume = [nextCommand(args, `resume ${run.runId.slice(0, 8)}`)];
  const workers = [`${nextCommand(args, 'worker')}, or here: ${resume[0]}`];
  const mustResume = isInterrupted || snapshot.status === 'PAUSED';
  const next = isOver ? advice.next : mustResume ? resume : isWaiting ? workers : [];
  if (next.length > 0) terminal.print('');
  printError(terminal, tree, advice);
  for (const line of unknownWriteLines(terminal, tree)) terminal.print(line);
  // What was once is past.
  if (asOf === undefined) printNext(terminal, next);
  return 0;
};

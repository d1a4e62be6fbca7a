import { readSnapshot } from '../../projector/read-snapshot.ts';
import type { Command } from '../context.ts';
import { namedRun } from '../named-run.ts';
import { openWriteLines, openWrites } from '../open-writes.ts';
import { readLog } from '../read-log.ts';
import { RunTree } from '../run-tree.ts';
import { treeLines } from '../show-tree.ts';
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
  const tree = new RunTree(run.runId);
  if (asOf === undefined) await catchUp(store, tree);
  else for (const event of await readLog(context, run.runId, asOf)) tree.take(event);
  const took = snapshot.totalDurationMs === undefined ? '' : ` in ${duration(snapshot.totalDurationMs)}`;
  terminal.print(`${terminal.paint('bold', snapshot.status)}${took}  ${clean(run.planId)} ${clean(run.planVersion)}`);
  terminal.print(
    `run ${run.runId}${run.parentRunId === undefined ? '' : `  started by ${run.parentRunId}`}${run.retryOf === undefined ? '' : `  retry of ${run.retryOf}`}`,
  );
  terminal.print(`after event ${snapshot.lastEventSeq} of ${run.lastSeq}`);
  if (snapshot.metadata.inconsistent) terminal.print(terminal.paint('red', 'the log has moves that are not legal'));
  terminal.print('');
  for (const line of treeLines(tree, terminal, {
    now: Date.now(),
    ...(process.stdout.isTTY ? { width: terminal.columns } : {}),
  }))
    terminal.print(line);
  if (asOf === undefined && openWrites(tree).length > 0) terminal.print(['', ...openWriteLines(args, tree)].join('\n'));
  if (tree.error) terminal.print(`\n${terminal.paint('red', tree.error.code)}: ${clean(tree.error.message, 2000)}`);
  return 0;
};

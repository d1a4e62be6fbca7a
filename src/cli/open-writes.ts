import type { PostgresStore } from '../store/postgres-store.ts';
import { nextCommand } from './next-command.ts';
import type { Arguments } from './parse-command.ts';
import type { OpenWrite, RunTree } from './run-tree.ts';
import { clean } from './terminal.ts';
import { hasEnded } from './watch-run.ts';

/** The open writes of a run and of the runs that it waits for. */
export function openWrites(tree: RunTree): (OpenWrite & { readonly runId: string })[] {
  if (hasEnded(tree)) return [];
  const own = [...tree.openWrites.values()].map((write) => ({ runId: tree.runId, ...write }));
  return [...own, ...childrenOf(tree).flatMap(openWrites)];
}

/** Whether nothing goes on before a person has settled a write: no work is left that anybody could take. */
export async function waitsForPerson(store: PostgresStore, tree: RunTree): Promise<boolean> {
  const children = childrenOf(tree);
  if (hasEnded(tree) || tree.openWrites.size + children.length === 0) return false;
  const rows = await store.work.list(tree.runId);
  // Whatever waits for a run has a row, and is at rest as long as that run is.
  if (rows.length !== children.length || !rows.every(({ unit }) => unit.startsWith('w:'))) return false;
  for (const child of children) if (!(await waitsForPerson(store, child))) return false;
  return true;
}

const childrenOf = ({ steps }: RunTree): RunTree[] =>
  [...steps.values()].flatMap(({ children }) => children.filter((child) => !hasEnded(child)));

/** What is not known, and what to type. */
export function openWriteLines(args: Arguments, tree: RunTree): string[] {
  return openWrites(tree).flatMap(({ runId, step, operation, target }, at, all) => {
    const isAlone = all.filter((write) => write.runId === runId).length === 1;
    const settle = nextCommand(args, `settle ${runId.slice(0, 8)}${isAlone ? '' : ` ${clean(step)}`}`);
    const what = [operation, target].filter((word) => word !== undefined).join(' ');
    return [
      `The outcome of ${clean(what || 'the write', 500)} of step ${clean(step)} is unknown.`,
      `${at === 0 ? 'next:' : '     '}   ${settle} --happened    if it happened (--result JSON: what it gave)`,
      `        ${settle} --send-again  to send it again`,
      `        ${settle} --give-up     to let the step fail`,
    ];
  });
}

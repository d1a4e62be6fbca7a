import type { PostgresStore } from '../store/postgres-store.ts';
import { nextCommand } from './next-command.ts';
import type { Arguments } from './parse-command.ts';
import type { RunTree } from './run-tree.ts';
import type { LostWrite } from './run-writes.ts';
import { clean, type Terminal } from './terminal.ts';
import { hasEnded } from './watch-run.ts';

type NamedWrite = LostWrite & { readonly runId: string };

/** The open writes of a run and of the runs that it waits for. */
export function openWrites(tree: RunTree): NamedWrite[] {
  if (hasEnded(tree)) return [];
  const own = [...tree.writes.open.values()].map((write) => ({ runId: tree.runId, ...write }));
  return [...own, ...childrenOf(tree).flatMap(openWrites)];
}

/** Writes of a run that has ended, and of those that it started, of which nobody knows whether they happened. */
export function unknownWrites(tree: RunTree): NamedWrite[] {
  if (!hasEnded(tree)) return [];
  const own = [...tree.writes.unknown.values()].map((write) => ({ runId: tree.runId, ...write }));
  const children = [...tree.steps.values()].flatMap((step) => step.children);
  return [...own, ...children.flatMap(unknownWrites)];
}

/** What may have happened, and what a retry does about it. */
export function unknownWriteLines(terminal: Terminal, tree: RunTree): string[] {
  const writes = unknownWrites(tree);
  if (writes.length === 0) return [];
  const lost = writes.map(({ runId, step, ...write }) => {
    const where = runId === tree.runId ? '' : ` of run ${runId.slice(0, 8)}`;
    return `The outcome of ${writeName(write)} of step ${clean(step)}${where} is unknown: it may have happened.`;
  });
  const retry =
    'A retry does not send it again before that is known: it finds out where it can, and otherwise asks you. A new run would send it.';
  return [...lost, ...(tree.status === 'COMPLETED' ? [] : [retry])].flatMap((line) => terminal.wrap(line));
}

const writeName = ({ operation, target }: Pick<LostWrite, 'operation' | 'target'>): string =>
  clean([operation, target].filter((word) => word !== undefined).join(' ') || 'the write', 500);

/** Whether nothing goes on before a person has settled a write: no work is left that anybody could take. */
export async function waitsForPerson(store: PostgresStore, tree: RunTree): Promise<boolean> {
  const children = childrenOf(tree);
  if (hasEnded(tree) || tree.writes.open.size + children.length === 0) return false;
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
    return [
      `The outcome of ${writeName({ operation, target })} of step ${clean(step)} is unknown.`,
      `${at === 0 ? 'next:' : '     '}   ${settle} --happened    if it happened (--result JSON: what it gave)`,
      `        ${settle} --send-again  to send it again`,
      `        ${settle} --give-up     to let the step fail`,
    ];
  });
}

import { ERRORS } from '../contracts/errors.ts';
import type { StoredValue } from '../contracts/values.ts';
import type { Context } from './context.ts';
import { type Advice, failureAdvice } from './failure-advice.ts';
import { nextCommand } from './next-command.ts';
import { unknownWriteLines, unknownWrites } from './open-writes.ts';
import type { RunTree } from './run-tree.ts';
import { clean, duration, type Terminal } from './terminal.ts';

const MAX_RESULT_LINES = 30;

export function endExit(tree: RunTree): number {
  if (tree.status === 'COMPLETED') return 0;
  return tree.status === 'CANCELLED' ? ERRORS.CANCELLED.exit : 1;
}

/** What became of a run, and the next thing to type. */
export async function printEnd(context: Context, tree: RunTree): Promise<void> {
  const { args, terminal, session } = context;
  const value = tree.result === undefined ? undefined : await loadStored(context, tree.result);
  const took = tree.startedAt === undefined || tree.endedAt === undefined ? undefined : tree.endedAt - tree.startedAt;
  if (terminal.json) {
    const unknown = unknownWrites(tree);
    const row = await (await session.store()).findRun(tree.runId);
    terminal.printJson({
      runId: tree.runId,
      status: tree.status,
      planId: row?.planId,
      planVersion: row?.planVersion,
      durationMs: took,
      ...(tree.result === undefined ? {} : { result: value }),
      ...(tree.error === undefined ? {} : { error: tree.error }),
      ...(unknown.length === 0 ? {} : { unknownWrites: unknown }),
      steps: [...tree.steps.values()].map(({ stepId, mark, attempt, durationMs, loop, reused }) => ({
        stepId,
        status: mark,
        attempt,
        ...(durationMs === undefined ? {} : { durationMs }),
        ...(loop === undefined ? {} : { loop: { ended: loop.ended, failed: loop.failed } }),
        ...(reused === undefined ? {} : { receipts: reused }),
      })),
    });
    return;
  }
  const short = tree.runId.slice(0, 8);
  const color = tree.status === 'COMPLETED' ? 'green' : tree.status === 'FAILED' ? 'red' : 'yellow';
  terminal.print('');
  terminal.print(
    `${terminal.paint(color, tree.status ?? '')}${took === undefined ? '' : ` in ${duration(took)}`}${handled(tree)}`,
  );
  const advice = failureAdvice(args, tree);
  printError(terminal, tree, advice);
  for (const line of unknownWriteLines(terminal, tree)) terminal.print(line);
  if (tree.result !== undefined && value !== null)
    terminal.print(`result:${shownValue(value, nextCommand(args, `result ${short}`))}`);
  terminal.print(`run:    ${tree.runId}`);
  const next = tree.status === 'COMPLETED' ? [nextCommand(args, `events ${short}`)] : advice.next;
  printNext(terminal, next);
}

export function printError(terminal: Terminal, { error }: RunTree, { cure }: Advice): void {
  if (!error) return;
  const where = error.stepId === undefined ? '' : ` in step ${clean(error.stepId)}`;
  const said = `${error.code}${where}: ${clean(error.message, 2000)}`;
  const [first = '', ...more] = terminal.wrap(said);
  terminal.print(`${terminal.paint('red', error.code)}${first.slice(error.code.length)}`);
  for (const line of [...more, ...(cure === undefined ? [] : terminal.wrap(cure))]) terminal.print(line);
}

export function printNext(terminal: Terminal, lines: readonly string[]): void {
  lines.forEach((line, i) => {
    terminal.print(`${i === 0 ? 'next:  ' : '       '} ${line}`);
  });
}

function handled({ handledFailures: count }: RunTree): string {
  if (count === 0) return '';
  return `, ${count} failure${count === 1 ? '' : 's'} handled`;
}

function shownValue(value: unknown, all: string): string {
  if (typeof value === 'string' && !value.includes('\n') && value.length <= 500) return ` ${clean(value)}`;
  const lines = (JSON.stringify(value, null, 2) ?? 'null').split('\n');
  if (lines.length <= 1) return ` ${clean(lines[0]!)}`;
  const shown = lines.slice(0, MAX_RESULT_LINES).map((line) => `  ${clean(line)}`);
  if (lines.length > MAX_RESULT_LINES) shown.push(`  ... ${lines.length - MAX_RESULT_LINES} more lines: ${all}`);
  return `\n${shown.join('\n')}`;
}

export async function loadStored(context: Context, stored: StoredValue): Promise<unknown> {
  if ('value' in stored) return stored.value;
  const [{ loadValue }, artifacts] = await Promise.all([
    import('../worker/store-result.ts'),
    context.session.artifacts(),
  ]);
  return loadValue(artifacts, stored);
}

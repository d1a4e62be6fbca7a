import { setTimeout as sleep } from 'node:timers/promises';
import { isTerminal } from '../../contracts/states.ts';
import { stepNameOf } from '../../kernel/entity-path.ts';
import type { PostgresStore } from '../../store/postgres-store.ts';
import type { RunRow } from '../../store/sql/find-run.ts';
import type { TaskLine } from '../../store/sql/task-lines.ts';
import type { Command, Context } from '../context.ts';
import { namedRun } from '../named-run.ts';
import { checkStepName } from '../named-step.ts';
import { placeName } from '../place-name.ts';
import { clean } from '../terminal.ts';

const PAGE = 1000;
const POLL_MS = 300;
/** Workers store lines in the background: the last ones come a moment after the end of the run. */
const LAST_LINES_MS = 700;

export const logs: Command = async (context) => {
  const { args, session, terminal } = context;
  const run = await namedRun(context, args.positionals[0]!);
  const store = await session.store();
  const reader = new LineReader(store, run);
  let shown = 0;
  const shower = lineShower(context, run);
  const show = (line: TaskLine, from: RunRow): void => {
    if (shower(line, from)) shown++;
  };
  const step = args.text('step');
  if (!args.has('follow')) {
    await reader.read(show);
    if (shown === 0 && step !== undefined) await checkStepName(context, run, step, reader.children());
    if (shown === 0 && !terminal.json)
      terminal.note(`The tasks of this ${step === undefined ? 'run' : 'step'} printed nothing.`);
    return 0;
  }
  // One that goes on may start others, with steps of their own.
  if (step !== undefined && run.status !== undefined && isTerminal(run.status)) {
    await reader.findChildren();
    await checkStepName(context, run, step, reader.children());
  }
  const stop = new AbortController();
  const leave = (): void => stop.abort();
  process.once('SIGINT', leave);
  process.once('SIGTERM', leave);
  let endedAt: number | undefined;
  while (!stop.signal.aborted) {
    const found = await reader.read(show);
    const { status } = (await store.findRun(run.runId)) ?? run;
    if (status === undefined || !isTerminal(status)) endedAt = undefined;
    else endedAt ??= Date.now();
    if (endedAt !== undefined && found === 0 && Date.now() - endedAt > LAST_LINES_MS) break;
    await sleep(POLL_MS, undefined, { signal: stop.signal }).catch(() => {});
  }
  return 0;
};

/** Reads what was printed in a run and in the runs that it started, each line once. */
class LineReader {
  readonly #store: PostgresStore;
  readonly #runs: { readonly run: RunRow; readonly cursor: Record<string, number> }[] = [];
  readonly #known = new Set<string>();

  constructor(store: PostgresStore, run: RunRow) {
    this.#store = store;
    this.#add(run);
  }

  #add(run: RunRow): void {
    if (this.#known.has(run.runId)) return;
    this.#known.add(run.runId);
    this.#runs.push({ run, cursor: {} });
  }

  /** The runs that the run started, as far as they were found. */
  children(): RunRow[] {
    return this.#runs.slice(1).map(({ run }) => run);
  }

  async findChildren(): Promise<void> {
    // The list grows while it is walked: children of children are found as well.
    for (const { run } of this.#runs) await this.#findChildrenOf(run);
  }

  async #findChildrenOf(run: RunRow): Promise<void> {
    for (const child of await this.#store.listRuns({ parentRunId: run.runId, limit: PAGE })) this.#add(child);
  }

  async read(show: (line: TaskLine, run: RunRow) => void): Promise<number> {
    let found = 0;
    for (const { run, cursor } of this.#runs) {
      for (;;) {
        const lines = await this.#store.readTaskLines(run.runId, cursor, PAGE);
        for (const line of lines) {
          cursor[line.writer] = line.lineNo;
          show(line, run);
        }
        found += lines.length;
        if (lines.length < PAGE) break;
      }
      await this.#findChildrenOf(run);
    }
    return found;
  }
}

/** Prints a line if it is one of those that were asked for, and says whether it was. */
function lineShower({ args, terminal }: Context, top: RunRow): (line: TaskLine, run: RunRow) => boolean {
  const only = args.text('step');
  return (line, run) => {
    if (only !== undefined && line.stepId !== only && stepNameOf(line.stepId) !== only) return false;
    const { printedAt, stepId, entity, attempt, stream, line: text } = line;
    if (terminal.json) {
      terminal.print(JSON.stringify({ runId: run.runId, printedAt, stepId, entity, attempt, stream, line: text }));
      return true;
    }
    const from = run.runId === top.runId ? '' : `${clean(run.planId)} ${terminal.symbols.into} `;
    const head = `${printedAt.slice(11, 23)}  ${from}${placeName(entity)}`;
    const body = clean(text, 8000);
    terminal.print(`${terminal.paint('dim', head)} | ${stream === 'stderr' ? terminal.paint('yellow', body) : body}`);
    return true;
  };
}

import type { RunTree, StepLine, StepMark } from './run-tree.ts';
import { type Color, clean, crop, displayWidth, duration, pad, type Terminal } from './terminal.ts';

const COLOR: Readonly<Record<StepMark, Color>> = {
  waiting: 'dim',
  running: 'cyan',
  done: 'green',
  failed: 'red',
  skipped: 'dim',
};
const NAME_WIDTH = 24;
const BAR_WIDTH = 10;

/** A bar of full and empty cells. */
export function progressBar(done: number, total: number, cells: number, { symbols }: Terminal): string {
  const full = total === 0 ? cells : Math.min(cells, Math.floor((done / total) * cells));
  return `${symbols.bar.repeat(full)}${symbols.rest.repeat(cells - full)}`;
}

/** What stands behind the name of a step: how far, how long, why. */
function stepFacts(step: StepLine, terminal: Terminal, options: LineOptions): string {
  const facts: string[] = [];
  const { loop, durationMs, startedAt } = step;
  if (loop) {
    const failed = loop.failed > 0 ? `, ${loop.failed} failed` : '';
    const isBar = options.bars && step.mark === 'running' && loop.count !== undefined;
    const bar = isBar ? `${progressBar(loop.ended, loop.count!, BAR_WIDTH, terminal)} ` : '';
    facts.push(`${bar}${loop.ended}${loop.count === undefined ? '' : `/${loop.count}`}${failed}`);
  }
  if (durationMs !== undefined) facts.push(duration(durationMs));
  else if (step.mark === 'running' && startedAt !== undefined)
    facts.push(duration(Math.max(0, options.now - startedAt)));
  if (step.attempt > 1) facts.push(`attempt ${step.attempt}`);
  if (step.tries > 1) facts.push(step.mark === 'running' ? `try ${step.tries}` : `${step.tries} tries`);
  if (step.note !== undefined) facts.push(clean(step.note));
  return facts.join('  ');
}

interface LineOptions {
  readonly prefix: string;
  readonly now: number;
  readonly mark?: string;
  readonly width?: number;
  /** Loops under way have a bar. */
  readonly bars?: boolean;
}

/** One line for one step, cropped to the width. */
export function stepLine(step: StepLine, terminal: Terminal, options: LineOptions): string {
  const { symbols } = terminal;
  const symbol = options.mark ?? symbols[step.mark];
  const width = options.width ?? Number.POSITIVE_INFINITY;
  // Where there is little room, what happens matters more than where the columns are.
  const name = pad(`${options.prefix}${clean(step.stepId, 120)}`, width < 50 ? 0 : NAME_WIDTH);
  const text = crop(
    `${name}  ${stepFacts(step, terminal, options)}`.trimEnd(),
    width - displayWidth(symbol) - 1,
    symbols.more,
  );
  const color = COLOR[step.mark];
  return `${terminal.paint(color, symbol)} ${color === 'dim' ? terminal.paint('dim', text) : text}`;
}

interface TreeOptions {
  readonly now: number;
  readonly spinner?: string;
  readonly width?: number;
  readonly bars?: boolean;
  /** Only the last lines; the first of them says how many are missing. */
  readonly rows?: number;
}

/** The whole tree, a line per step, runs that a step started below it. */
export function treeLines(tree: RunTree, terminal: Terminal, options: TreeOptions): string[] {
  const entries: { readonly step: StepLine; readonly depth: number; readonly prefix: string }[] = [];
  const walk = (run: RunTree, depth: number): void => {
    for (const step of run.steps.values()) {
      // Runs of a loop have steps of the same names.
      const prefix = run.index === undefined ? '' : `${run.index} ${terminal.symbols.into} `;
      entries.push({ step, depth, prefix });
      for (const child of step.children) walk(child, depth + 1);
    }
  };
  walk(tree, 0);
  const rows = options.rows ?? Number.POSITIVE_INFINITY;
  const isCut = entries.length > rows;
  const shown = isCut ? entries.slice(1 - rows) : entries;
  const lines = shown.map(({ step, depth, prefix }) => {
    const busy = step.mark === 'running' && options.spinner !== undefined ? { mark: options.spinner } : {};
    // However deep, half of a narrow terminal is left for the name.
    const indent = '  '.repeat(Math.min(depth, Math.floor((options.width ?? 200) / 4)));
    const width = options.width === undefined ? {} : { width: options.width - indent.length };
    const { now, bars = false } = options;
    return `${indent}${stepLine(step, terminal, { prefix, now, bars, ...busy, ...width })}`;
  });
  if (!isCut) return lines;
  const above = `${terminal.symbols.more} ${entries.length - shown.length} more above`;
  return [terminal.paint('dim', crop(above, options.width ?? 200, terminal.symbols.more)), ...lines];
}

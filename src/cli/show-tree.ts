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

/** What stands behind the name of a step: how far, how long, why. */
function stepFacts(step: StepLine, now: number): string {
  const facts: string[] = [];
  const { loop, durationMs, startedAt } = step;
  if (loop) {
    const failed = loop.failed > 0 ? `, ${loop.failed} failed` : '';
    facts.push(`${loop.ended}${loop.count === undefined ? '' : `/${loop.count}`}${failed}`);
  }
  if (durationMs !== undefined) facts.push(duration(durationMs));
  else if (step.mark === 'running' && startedAt !== undefined) facts.push(duration(Math.max(0, now - startedAt)));
  if (step.attempt > 1) facts.push(`attempt ${step.attempt}`);
  if (step.note !== undefined) facts.push(clean(step.note));
  return facts.join('  ');
}

/** One line for one step, cropped to the width. */
export function stepLine(
  step: StepLine,
  terminal: Terminal,
  options: { prefix: string; now: number; mark?: string; width?: number },
): string {
  const { symbols } = terminal;
  const symbol = options.mark ?? symbols[step.mark];
  const width = options.width ?? Number.POSITIVE_INFINITY;
  const name = pad(`${options.prefix}${clean(step.stepId, 120)}`, NAME_WIDTH);
  const text = crop(
    `${name}  ${stepFacts(step, options.now)}`.trimEnd(),
    width - displayWidth(symbol) - 1,
    symbols.more,
  );
  const color = COLOR[step.mark];
  return `${terminal.paint(color, symbol)} ${color === 'dim' ? terminal.paint('dim', text) : text}`;
}

/** The whole tree, a line per step, runs that a step started below it. */
export function treeLines(
  tree: RunTree,
  terminal: Terminal,
  options: { now: number; spinner?: string; width?: number },
): string[] {
  const lines: string[] = [];
  const walk = (run: RunTree, depth: number): void => {
    for (const step of run.steps.values()) {
      const busy = step.mark === 'running' && options.spinner !== undefined ? { mark: options.spinner } : {};
      const indent = '  '.repeat(depth);
      const width = options.width === undefined ? {} : { width: options.width - indent.length };
      lines.push(`${indent}${stepLine(step, terminal, { prefix: '', now: options.now, ...busy, ...width })}`);
      for (const child of step.children) walk(child, depth + 1);
    }
  };
  walk(tree, 0);
  return lines;
}

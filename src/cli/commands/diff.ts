import { compareRuns, type Difference, type StepPair } from '../compare-runs.ts';
import type { Command, Context } from '../context.ts';
import { type DifferingPath, differingPaths } from '../differing-paths.ts';
import { namedRun } from '../named-run.ts';
import { readLog } from '../read-log.ts';
import { type RunFacts, runFacts } from '../run-facts.ts';
import { clean, crop, displayWidth, duration, pad, type Terminal } from '../terminal.ts';

const MAX_SHOWN = 50;
/** A change of time that is worth a line: a quarter, and a tenth of a second. */
const SLOWER = { ratio: 1.25, ms: 100 };

export const diff: Command = async (context) => {
  const { args, terminal } = context;
  const [first, second] = await Promise.all(args.positionals.map((name) => namedRun(context, name)));
  const report = await compare(context, first!.runId, second!.runId);
  const { a, b, differences } = report;
  if (terminal.json) {
    const side = ({ runId, status, planRef, durationMs }: RunFacts) => ({ runId, status, planRef, durationMs });
    const steps = report.pairs.map((pair) => ({
      stepId: (pair.a ?? pair.b)!.stepId,
      a: pair.a && { durationMs: pair.a.durationMs, attempts: pair.a.attempts, calls: pair.a.calls },
      b: pair.b && { durationMs: pair.b.durationMs, attempts: pair.b.attempts, calls: pair.b.calls },
    }));
    terminal.printJson({ same: differences.length === 0, a: side(a), b: side(b), differences, steps });
    return differences.length === 0 ? 0 : 1;
  }
  for (const [name, run] of [['a', a] as const, ['b', b] as const]) {
    const took = run.durationMs === undefined ? '' : ` in ${duration(run.durationMs)}`;
    const plan = run.planRef ? `${clean(run.planRef.planId)} ${clean(run.planRef.planVersion)}` : '';
    terminal.print(`${terminal.paint('bold', name)}  ${run.runId.slice(0, 8)}  ${plan}  ${run.status}${took}`);
  }
  show(context, differences);
  showTimes(context, report.pairs);
  const count = differences.length;
  const places = new Set(differences.map(({ stepId }) => stepId ?? '')).size;
  terminal.print(
    count === 0
      ? '\nThe same: route, results and attempts.'
      : `\n${count} difference${count === 1 ? '' : 's'} in ${places} place${places === 1 ? '' : 's'}.`,
  );
  return count === 0 ? 0 : 1;
};

interface Report {
  readonly a: RunFacts;
  readonly b: RunFacts;
  readonly differences: readonly Difference[];
  readonly pairs: readonly StepPair[];
}

/** The runs, and below each step the runs that it started, with the names of the steps that lead to them. */
async function compare(context: Context, idA: string, idB: string): Promise<Report> {
  const [a, b] = await Promise.all(
    [idA, idB].map(async (runId) => runFacts(runId, await readLog(context, runId))) as [
      Promise<RunFacts>,
      Promise<RunFacts>,
    ],
  );
  const { differences, pairs } = compareRuns(a, b);
  const all = { differences: [...differences], pairs: [...pairs] };
  for (const pair of pairs) {
    for (const [place, child] of pair.a?.children ?? []) {
      const other = pair.b?.children.get(place);
      if (other === undefined) continue;
      const inner = await compare(context, child, other);
      const named = (stepId: string | undefined): string =>
        `${pair.a!.stepId}${place.replace(/\/wait:\d+$/, '')} ${context.terminal.symbols.into} ${stepId ?? 'run'}`;
      all.differences.push(...inner.differences.map((one) => ({ ...one, stepId: named(one.stepId) })));
      all.pairs.push(
        ...inner.pairs.map((one) => ({
          a: one.a && { ...one.a, stepId: named(one.a.stepId) },
          b: one.b && { ...one.b, stepId: named(one.b.stepId) },
        })),
      );
    }
  }
  return { a, b, ...all };
}

function show({ terminal }: Context, differences: readonly Difference[]): void {
  let last: string | undefined;
  let left = MAX_SHOWN;
  let rest = 0;
  for (const { what, stepId, a, b } of differences) {
    const paths = what === 'step' ? [{ path: '', a, b }] : differingPaths(a, b);
    const shown = paths.slice(0, left);
    left -= shown.length;
    rest += paths.length - shown.length;
    if (shown.length === 0) continue;
    const place = stepId ?? 'the run';
    if (place !== last) terminal.print(`\n${terminal.paint('bold', clean(place))}`);
    last = place;
    if (what === 'step') terminal.print(`  only in ${a === undefined ? 'b' : 'a'} (${String(a ?? b)})`);
    else for (const one of shown) showPath(terminal, `${what}${one.path}`, one);
  }
  if (rest > 0) terminal.print(`\n${rest} more: --json has them all`);
}

/** `path: left -> right`, or below one another where they are too long for a line. */
function showPath(terminal: Terminal, path: string, { a, b }: DifferingPath): void {
  const room = process.stdout.isTTY ? terminal.columns - 1 : 200;
  const { more } = terminal.symbols;
  const [left, right] = [a, b].map((side) =>
    side === undefined ? '(nothing)' : clean(typeof side === 'string' ? side : JSON.stringify(side), 4000),
  ) as [string, string];
  const name = crop(clean(path), room - 3, more);
  const line = `  ${name}: ${left} -> ${right}`;
  if (displayWidth(line) <= room) {
    terminal.print(line);
    return;
  }
  // Long texts that begin alike are shown from where they part.
  let alike = 0;
  while (alike < left.length && left[alike] === right[alike]) alike++;
  const from = alike > room / 2 ? alike - 10 : 0;
  const part = (text: string): string => crop(`${from > 0 ? more : ''}${text.slice(from)}`, room - 5, more);
  terminal.print(`  ${name}`);
  terminal.print(`   ${terminal.paint('red', 'a')} ${part(left)}`);
  terminal.print(`   ${terminal.paint('green', 'b')} ${part(right)}`);
}

function showTimes({ terminal }: Context, pairs: readonly StepPair[]): void {
  const changed = pairs.flatMap(({ a, b }) => {
    const [left, right] = [a?.durationMs, b?.durationMs];
    if (a === undefined || left === undefined || right === undefined) return [];
    const [least, most] = [Math.min(left, right), Math.max(left, right)];
    if (most - least < SLOWER.ms || most < least * SLOWER.ratio) return [];
    return [`  ${pad(clean(a.stepId), 20)}  ${duration(left)} -> ${duration(right)}`];
  });
  if (changed.length === 0) return;
  terminal.print(`\n${terminal.paint('bold', 'times')}`);
  for (const line of changed) terminal.print(line);
}

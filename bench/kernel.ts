import { compileBench } from './compile.ts';
import { decideBench } from './decide.ts';
import { benchExpressions } from './expressions.ts';
import { foldBench } from './fold.ts';
import { atLeast, atMost, type BenchOptions, type BenchReport } from './harness.ts';

interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
}

const rows = (figures: readonly Figure[]) => figures.map(({ name, value, unit }) => ({ name, value, unit }));
const named = (figures: readonly Figure[], part: string): Figure => {
  const figure = figures.find(({ name }) => name.includes(part));
  if (!figure) throw new Error(`The benchmark gave no figure for '${part}'`);
  return figure;
};

/** Events per second through the fold. */
export async function foldReport({ quick, progress }: BenchOptions): Promise<BenchReport> {
  progress('folding');
  const figures = await foldBench({ quick });
  const slowest = Math.min(...figures.filter(({ unit }) => unit === 'events/s').map(({ value }) => value));
  return {
    tables: [{ title: 'fold', rows: rows(figures) }],
    goals: [atLeast('events per second through evolve, slowest shape', slowest, 1_000_000)],
    figures,
  };
}

/** Decisions, expressions and the compiler. */
export async function decideReport({ quick, progress }: BenchOptions): Promise<BenchReport> {
  progress('deciding');
  const decisions = await decideBench({ quick });
  progress('evaluating expressions');
  const expressions = (await benchExpressions(quick ? 100 : 500)).map(
    ({ name, opsPerSecond }): Figure => ({ name, value: Math.round(opsPerSecond), unit: 'evaluations/s' }),
  );
  progress('compiling');
  const compiles = await compileBench({ quick });
  return {
    tables: [
      { title: 'decisions', rows: rows(decisions) },
      { title: 'expressions', rows: rows(expressions) },
      { title: 'compiler', rows: rows(compiles) },
    ],
    goals: [
      atLeast('decisions per second, linear plan', named(decisions, 'decisions, linear plan').value, 100_000),
      atLeast('last against first thousand steps', named(decisions, 'steps 9,000 to 10,000').value, 0.8),
      atMost('milliseconds to compile 1,000 steps', named(compiles, '1,000').value, 1000),
    ],
    figures: [...decisions, ...expressions, ...compiles],
  };
}

import { compileBench } from './compile.ts';
import { benchExpressions } from './expressions.ts';
import { foldBench } from './fold.ts';
import { atLeast, atMost, type BenchOptions, type BenchReport } from './harness.ts';

type Row = Record<string, string | number>;

/** Events per second through the fold. */
export async function foldReport({ quick, progress }: BenchOptions): Promise<BenchReport> {
  progress('folding');
  const results = await foldBench({ quick });
  const slowest = Math.min(...results.filter((r) => r.unit === 'events/s').map((r) => r.value));
  return {
    tables: [{ title: 'fold', rows: results.map(({ name, value, unit }): Row => ({ name, value: Math.round(value), unit })) }],
    goals: [atLeast('events per second through evolve, slowest shape', slowest, 1_000_000)],
    figures: results,
  };
}

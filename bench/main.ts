// npm run bench -- NAME [--quick] [--strict] [--keep]
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BenchOptions, BenchReport, Goal } from './harness.ts';
import { machine } from './harness.ts';
import { keepResults } from './keep-results.ts';

const BENCHES: Record<string, () => Promise<(options: BenchOptions) => Promise<BenchReport>>> = {
  append: async () => (await import('./append.ts')).appendBench,
  steps: async () => (await import('./steps.ts')).stepsBench,
  engines: async () => (await import('./engines.ts')).enginesBench,
  'engines-long': async () => (await import('./engines-long.ts')).enginesLongBench,
  hello: async () => (await import('./hello.ts')).helloBench,
  fold: async () => (await import('./kernel.ts')).foldReport,
  decide: async () => (await import('./kernel.ts')).decideReport,
};

const [name, ...flags] = process.argv.slice(2);
const unknown = flags.filter((flag) => !['--quick', '--strict', '--keep'].includes(flag));
if (!name || !Object.hasOwn(BENCHES, name) || unknown.length > 0) {
  console.error(
    `usage: npm run bench -- NAME [--quick] [--strict] [--keep]\nNAME is one of: ${Object.keys(BENCHES).join(', ')}`,
  );
  process.exit(64);
}

const progress = (text: string): void => {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
  else console.error(text);
};
const run = await (BENCHES[name] as (typeof BENCHES)[string])();
const report = await run({ quick: flags.includes('--quick'), progress });
if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');

for (const { title, rows } of report.tables) {
  console.log(`\n${title}`);
  console.log(table(rows));
}
console.log(
  `\ngoals\n${table(report.goals.map(({ name: goal, goal: want, measured, met }) => ({ goal, want, measured, met: met ? 'yes' : 'NO' })))}`,
);
const folder = join(import.meta.dirname, 'out');
mkdirSync(folder, { recursive: true });
const result = { bench: name, at: new Date().toISOString(), commit: commit(), machine: machine(), ...report };
writeFileSync(join(folder, `${name}.json`), `${JSON.stringify(result, null, 2)}\n`);
console.log(`\nwritten to bench/out/${name}.json`);
if (flags.includes('--keep')) for (const file of keepResults(result)) console.log(`kept in ${file}`);
if (flags.includes('--strict') && report.goals.some((goal: Goal) => !goal.met)) process.exitCode = 1;

function commit(): string {
  return execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
}

function table(rows: readonly Record<string, string | number>[]): string {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const cell = (value: string | number | undefined): string =>
    value === undefined
      ? ''
      : typeof value === 'number'
        ? value.toLocaleString('en-US', { maximumFractionDigits: 3 })
        : value;
  const widths = columns.map((column) => Math.max(column.length, ...rows.map((row) => cell(row[column]).length)));
  const line = (cells: string[]): string =>
    cells
      .map((text, i) => text.padEnd(widths[i] as number))
      .join('  ')
      .trimEnd();
  return [
    line(columns),
    line(widths.map((width) => '-'.repeat(width))),
    ...rows.map((row) => line(columns.map((c) => cell(row[c])))),
  ].join('\n');
}

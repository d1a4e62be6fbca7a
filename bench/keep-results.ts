import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BenchReport } from './harness.ts';

const ROOT = join(import.meta.dirname, '..');

interface Result extends BenchReport {
  readonly bench: string;
  readonly at: string;
  readonly commit: string;
  readonly machine: Record<string, unknown>;
}

/** Keeps a result that documents quote, and writes its tables where docs/performance.md has a place for them. */
export function keepResults(result: Result): string[] {
  const folder = join(import.meta.dirname, 'results');
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${result.bench}.json`);
  writeFileSync(file, `${JSON.stringify(result, null, 2)}\n`);
  const page = join(ROOT, 'docs', 'performance.md');
  if (!existsSync(page)) return [file];
  const [begin, end] = [`<!-- bench ${result.bench} -->`, '<!-- /bench -->'];
  const text = readFileSync(page, 'utf8');
  const from = text.indexOf(begin);
  const to = text.indexOf(end, from);
  if (from < 0 || to < 0) return [file];
  writeFileSync(page, `${text.slice(0, from + begin.length)}\n${asMarkdown(result)}\n${text.slice(to)}`);
  return [file, page];
}

function asMarkdown({ bench, at, commit, machine, tables, goals }: Result): string {
  const { cpu, cores, node, platform } = machine;
  const where = `${cores} cores (${String(cpu).trim()}), Node ${node}, ${platform}`;
  const judged = goals.map(({ name, goal, measured, met }) => ({
    goal: name,
    want: goal,
    measured,
    met: met ? 'yes' : 'no',
  }));
  return [
    `Taken at commit ${commit} on ${at.slice(0, 10)}: ${where}. All figures are in \`bench/results/${bench}.json\`.`,
    ...[...tables, { title: 'goals', rows: judged }].map(({ title, rows }) => `**${title}**\n\n${tableOf(rows)}`),
  ].join('\n\n');
}

function tableOf(rows: readonly Record<string, string | number>[]): string {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const cell = (value: string | number | undefined): string =>
    typeof value === 'number' ? value.toLocaleString('en-US', { maximumFractionDigits: 2 }) : (value ?? '');
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [
    line(columns),
    line(columns.map(() => '---')),
    ...rows.map((row) => line(columns.map((c) => cell(row[c])))),
  ].join('\n');
}

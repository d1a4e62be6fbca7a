import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { table } from './language-tables.ts';

const ROOT = join(import.meta.dirname, '..');

/** From the first thing to try to the ones that bring something along. */
const ORDER = [
  'hello',
  'branches',
  'fan-out',
  'cycle',
  'parallel-loop',
  'pagination',
  'retry',
  'sub-playbook',
  'shared/area',
  'workbook',
  'large-result',
  'transforms',
  'shell',
  'postgres-etl',
  'handled-failure',
  'best-effort',
  'admission',
  'secrets',
  'custom-tool/publish',
];

/** docs/examples.md: every example with what its head says. */
export function examplesPage(): string {
  const names = readdirSync(join(ROOT, 'examples'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.yaml'))
    .map((file) => file.replace(/\.yaml$/, ''));
  const place = (name: string): number => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);
  names.sort((a, b) => place(a) - place(b) || (a < b ? -1 : 1));
  const sections = names.map((name) => {
    const text = readFileSync(join(ROOT, 'examples', `${name}.yaml`), 'utf8');
    const at = text.indexOf('apiVersion:');
    const head = text.slice(0, at).replace(/^# ?/gm, '').split('\n');
    const says = head.filter((line) => !line.startsWith('  ')).join('\n');
    const commands = head.filter((line) => line.startsWith('  ')).map((line) => line.trim());
    const code = name.startsWith('custom-tool/') ? ['tools/slug.ts', 'runledger.config.ts'].map(sourceBlock) : [];
    return [
      `## ${name}`,
      says.trim(),
      `\`\`\`sh\n${commands.join('\n')}\n\`\`\``,
      `\`\`\`yaml\n${text.slice(at)}\`\`\``,
      ...code,
    ].join('\n\n');
  });
  return `# Examples

Playbooks that show the language. Each is a file of [examples/](../examples), and a test runs each of these commands from the
folder of the project.

${sections.join('\n\n')}
`;
}

function sourceBlock(file: string): string {
  const text = readFileSync(join(ROOT, 'examples/custom-tool', file), 'utf8');
  return `\`examples/custom-tool/${file}\`:\n\n\`\`\`ts\n${text}\`\`\``;
}

interface BenchFile {
  readonly bench: string;
  readonly at: string;
  readonly machine: Readonly<Record<string, unknown>>;
  readonly tables: readonly { readonly title: string; readonly rows: readonly Record<string, string | number>[] }[];
}

/** What the committed results of the benchmarks say of us and others: the tables that have contenders. */
export function benchTables(folder = join(ROOT, 'bench/results')): string {
  const files = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.json')) : [];
  const parts = files.sort().flatMap((name) => {
    const { bench, at, machine, tables } = JSON.parse(readFileSync(join(folder, name), 'utf8')) as BenchFile;
    const where = [machine['cpu'], `${String(machine['cores'])} cores`, `Node ${String(machine['node'])}`].join(', ');
    const compared = tables.filter(({ rows }) => rows.some((row) => 'contender' in row));
    return compared.map(({ title, rows }) => {
      const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
      const cells = rows.map((row) => columns.map((column) => cell(row[column])));
      return `**${title}** (\`npm run bench -- ${bench}\`, ${at.slice(0, 10)}, ${where})\n\n${table(columns, cells)}`;
    });
  });
  if (parts.length === 0) return 'No results are committed yet.';
  const more = existsSync(join(ROOT, 'docs/performance.md')) ? ['[performance.md](performance.md) says more.'] : [];
  return [...parts, ...more].join('\n\n');
}

function cell(value: string | number | undefined): string {
  if (value === undefined) return '';
  return typeof value === 'number' ? value.toLocaleString('en-US', { maximumFractionDigits: 3 }) : value;
}

/** Puts the parts between their marks, `<!-- generated: NAME -->` and `<!-- end -->`; what is around them is kept. */
export function withParts(text: string, parts: Readonly<Record<string, string>>): string {
  const seen = new Set<string>();
  const filled = text.replace(/(<!-- generated: (.*?) -->\n)[\s\S]*?(<!-- end -->)/g, (_, begin, name, end) => {
    seen.add(name as string);
    if (!Object.hasOwn(parts, name as string)) throw new Error(`nothing generates '${name}'`);
    return `${begin}\n${parts[name as string]}\n\n${end}`;
  });
  const missing = Object.keys(parts).filter((name) => !seen.has(name));
  if (missing.length > 0) throw new Error(`there is no place for ${missing.join(', ')}`);
  return filled;
}

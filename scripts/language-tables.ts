import type { TSchema } from 'typebox';
import { LIMITS } from '../src/compiler/limits.ts';
import { PlaybookForm, StepForm, TaskForm } from '../src/compiler/playbook-schema.ts';
import { TOOL_FORMS, type ToolForm } from '../src/compiler/tool-forms.ts';
import { EXPRESSION_NAMES, type ExpressionName } from '../src/kernel/expressions/expression-names.ts';
import { builtInTools } from '../src/runtime/built-in-tools.ts';
import { loadSettings } from '../src/runtime/config.ts';

type Schema = TSchema & {
  readonly type?: string;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, TSchema>>;
  readonly required?: readonly string[];
  readonly items?: TSchema;
  readonly enum?: readonly string[];
  readonly anyOf?: readonly TSchema[];
  readonly const?: unknown;
  readonly patternProperties?: unknown;
};

/** A table of markdown. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), `|${head.map(() => '---|').join('')}`, ...rows.map(line)].join('\n');
}

function wordFor(schema: Schema): string {
  if (schema.enum) return schema.enum.map((word) => `\`${word}\``).join(', ');
  if (schema.const !== undefined) return `\`${String(schema.const)}\``;
  if (schema.anyOf) return [...new Set(schema.anyOf.map((each) => wordFor(each as Schema)))].join(' or ');
  if (schema.type === 'array') return 'list';
  if (schema.type === 'object') return 'mapping';
  if (schema.type === 'boolean') return 'true or false';
  if (schema.type === 'number' || schema.type === 'integer') return 'number';
  return schema.type === 'string' ? 'text' : 'anything';
}

/** Every field of a form and of the forms in it, by its path. Forms that have a table of their own are not opened. */
function fieldRows(form: Schema, closed: ReadonlySet<TSchema>, path = ''): string[][] {
  const rows: string[][] = [];
  for (const [name, property] of Object.entries(form.properties ?? {})) {
    const schema = property as Schema;
    const item = schema.type === 'array' && schema.items ? (schema.items as Schema) : undefined;
    const inner = item?.properties ? item : schema.properties ? schema : undefined;
    const here = `${path}${name}`;
    const must = form.required?.includes(name) ? ' (required)' : '';
    const description = schema.description ?? item?.description ?? '';
    if (/^An older spelling|^Another spelling/.test(description)) continue;
    // A form that says nothing of itself is told by its fields.
    if (!inner || description !== '')
      rows.push([`\`${here}${item ? '[]' : ''}\``, `${wordFor(schema)}${must}`, description]);
    if (inner && !closed.has(inner)) rows.push(...fieldRows(inner, closed, `${here}${item ? '[].' : '.'}`));
  }
  return rows;
}

const formTable = (form: TSchema, closed: readonly TSchema[] = []): string =>
  table(['field', 'value', 'meaning'], fieldRows(form as Schema, new Set(closed)));

function toolSection(kind: string, form: ToolForm): string {
  const spellings = Object.entries(form.aliases ?? {}).map(([other, field]) => `\`${other}\` = \`${field}\``);
  const needs = (form.needs ?? []).map((group) => group.map((field) => `\`${field}\``).join(' or '));
  const notes = [
    ...(needs.length > 0 ? [`Needs ${needs.join(', and ')}.`] : []),
    ...(spellings.length > 0 ? [`Other spellings: ${spellings.join(', ')}.`] : []),
    ...(form.verbatim ? [`${form.verbatim.map((field) => `\`${field}\``).join(', ')} is no template.`] : []),
  ];
  const rows = Object.entries(form.fields).map(([field, meaning]) => [`\`${field}\``, meaning]);
  return [`#### ${kind}`, `${form.summary} ${notes.join(' ')}`.trim(), table(['field', 'meaning'], rows)].join('\n\n');
}

const callables = (names: readonly ExpressionName[]): string =>
  table(
    ['name', 'arguments', 'what it gives'],
    names.map(({ name, params, summary }) => [`\`${name}\``, params.map((each) => `\`${each}\``).join(', '), summary]),
  );

/** The parts of docs/language.md that the code knows, by the name of their place. */
export async function languageTables(): Promise<Record<string, string>> {
  const settings = await loadSettings({ configFile: false, env: {} });
  const built = new Set([...(await builtInTools(settings)).map(({ kind }) => kind), 'playbook', 'workbook']);
  const forms = Object.entries(TOOL_FORMS);
  const own = forms.filter(([kind]) => !built.has(kind));
  const { filters, tests, functions, methods, refused } = EXPRESSION_NAMES;
  return {
    document: formTable(PlaybookForm, [StepForm]),
    step: formTable(StepForm),
    task: formTable(TaskForm),
    tools: forms
      .filter(([kind]) => built.has(kind))
      .map(([kind, form]) => toolSection(kind, form))
      .join('\n\n'),
    'tools of your own': table(
      ['kind', 'what it is for'],
      own.map(([kind, { summary }]) => [`\`${kind}\``, summary]),
    ),
    filters: callables(filters),
    tests: callables(tests),
    functions: callables(functions),
    methods: callables(methods),
    refused: table(
      ['name', 'why not'],
      [...refused.filters, ...refused.functions, ...refused.methods].map(({ name, reason }) => [`\`${name}\``, reason]),
    ),
    limits: table(
      ['limit', 'at most'],
      Object.entries(LIMITS).map(([name, most]) => [name, most.toLocaleString('en-US')]),
    ),
  };
}

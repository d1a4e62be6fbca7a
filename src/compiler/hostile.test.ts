import { describe, expect, test } from 'vitest';
import { compileText, playbook, withTool } from './compile.fixture.ts';
import { LIMITS } from './limits.ts';

const MEGABYTE = 1_000_000;
const fill = (text: string): string => text.repeat(Math.floor(MEGABYTE / text.length));
const numbered = (count: number, line: (i: number) => string): string =>
  Array.from({ length: count }, (_, i) => line(i)).join('');

/** Files that would take a careless reader minutes, gigabytes or the whole process; each has its first code. */
const FILES: readonly (readonly [what: string, text: () => string, code: string])[] = [
  ['brackets', () => fill('['), 'TOO_LARGE'],
  ['braces', () => fill('{a: '), 'TOO_LARGE'],
  ['dashes', () => fill('- '), 'TOO_LARGE'],
  ['question marks', () => fill('? '), 'TOO_LARGE'],
  ['stairs', () => numbered(1_400, (i) => `${' '.repeat(i)}a:\n`), 'TOO_LARGE'],
  ['mappings in one line', () => fill('a: b: '), 'TOO_LARGE'],
  ['commas', () => `[${fill(',')}`, 'TOO_LARGE'],
  ['quotes', () => fill('"'), 'TOO_LARGE'],
  ['anchors on nothing', () => fill('& '), 'TOO_LARGE'],
  ['directives', () => fill('%a\n'), 'TOO_LARGE'],
  ['mistakes', () => fill('a: }\n'), 'TOO_LARGE'],
  ['empty lines', () => fill('\n'), 'TOO_LARGE'],
  ['comments', () => fill('# x\n'), 'TOO_LARGE'],
  ['documents', () => fill('---\n'), 'YAML_UNSUPPORTED'],
  ['tabs', () => fill('\t- a\n'), 'TOO_LARGE'],
  ['an open quote', () => `a: "${fill('\\')}`, 'YAML_SYNTAX'],
  ['one long word', () => fill('x'), 'INVALID_STEP_SCHEMA'],
  ['pictures', () => fill('\u{1F600}'), 'INVALID_STEP_SCHEMA'],
  ['more than a megabyte', () => `# ${fill('x')}${fill('x')}`, 'TOO_LARGE'],
  [
    'laughs',
    () =>
      withTool(
        '{kind: noop}',
        `workload:\n  a: &a [x, x, x, x, x, x, x, x, x]\n${'bcdefgh'
          .split('')
          .map((c, i) => `  ${c}: &${c} [${Array(9).fill(`*${'abcdefg'[i]}`).join(', ')}]\n`)
          .join('')}`,
      ),
    'YAML_ALIAS_BOMB',
  ],
  [
    'merges',
    () =>
      withTool(
        '{kind: noop}',
        `workload:\n  m: &m {x: 1}\n${numbered(40, (i) => `  m${i}: &m${i} {<<: [${i === 0 ? '*m' : `*m${i - 1}, *m${i - 1}`}]}\n`)}`,
      ),
    'YAML_ALIAS_BOMB',
  ],
  [
    'aliases that grow deep',
    () =>
      withTool(
        '{kind: noop}',
        `workload:\n  m: &m [1]\n${numbered(200, (i) => `  m${i}: &m${i} [${i === 0 ? '*m' : `*m${i - 1}`}]\n`)}`,
      ),
    'TOO_LARGE',
  ],
  [
    'the same key',
    () => withTool('{kind: noop}', `workload:\n${fill('  a: 1\n').slice(0, 300_000)}\n`),
    'YAML_DUPLICATE_KEY',
  ],
  ['many keys', () => withTool(`{kind: noop${numbered(30_000, (i) => `, k${i}: 1`)}}`), 'INVALID_STEP_SCHEMA'],
  ['many steps', () => playbook(numbered(LIMITS.steps + 1, (i) => `- {step: s${i}, next: {}}\n`)), 'TOO_LARGE'],
  ['many tasks', () => withTool(`[${numbered(LIMITS.tasksPerStep + 1, () => '{kind: noop}, ')}]`), 'TOO_LARGE'],
  [
    'joins that reach all others',
    () => playbook(numbered(3_000, (i) => `- {step: s${i}, join: all, next: {arcs: [{step: s${(i + 1) % 3_000}}]}}\n`)),
    'TOO_LARGE',
  ],
  [
    'names that are almost right',
    () => playbook(numbered(4_000, (i) => `- {step: st${i}, tool: {kind: noop, result: "{{ sy${i}.a }}"}}\n`)),
    'UNKNOWN_ROOT_NAME',
  ],
  ['a template of brackets', () => withTool(`{kind: noop, result: "{{ ${'('.repeat(900_000)} }}"}`), 'TEMPLATE_SYNTAX'],
  ['a template of sums', () => withTool(`{kind: noop, result: "{{ ${'1 + '.repeat(200_000)}1 }}"}`), 'TEMPLATE_SYNTAX'],
  ['a template of blocks', () => withTool(`{kind: noop, result: "${'{{ x }} '.repeat(100_000)}"}`), 'TEMPLATE_SYNTAX'],
  [
    'secrets',
    () => withTool('{kind: noop}', `workload:\n${numbered(10_000, (i) => `  k${i}: {password: abc${i}}\n`)}`),
    'SECRET_IN_PLAN',
  ],
  ['almost a URL', () => withTool(`{kind: noop, result: "${'a:/'.repeat(300_000)}"}`), 'none'],
  [
    'one line of steps',
    () =>
      `{apiVersion: noetl.io/v2, kind: Playbook, metadata: {name: x}, workflow: [${numbered(5_000, (i) => `{step: s${i}, tol: 1}, `)}]}`,
    'INVALID_STEP_SCHEMA',
  ],
];

describe('a hostile file gets coded problems, in bounded time and memory', () => {
  test.each(FILES)('%s', { timeout: 30_000 }, (_what, text, code) => {
    const result = compileText(text());
    expect(result.ok ? 'none' : result.problems[0]!.code).toBe(code);
    const problems = result.ok ? [] : result.problems;
    expect(problems.length).toBeLessThanOrEqual(LIMITS.problems + 1);
    for (const { message, excerpt, line, column } of problems) {
      expect(message.length).toBeLessThan(1_000);
      expect(excerpt.length).toBeLessThan(400);
      expect(line).toBeGreaterThan(0);
      expect(column).toBeGreaterThan(0);
    }
  });
});

test('what does not fit the list of problems is counted', () => {
  const result = compileText(withTool(`{kind: noop${numbered(1_000, (i) => `, k${i}: 1`)}}`));
  expect(result.ok ? '' : result.problems.at(-1)!.message).toContain(`${1_000 - LIMITS.problems} more problems`);
});

test('names of host objects are names like any other', () => {
  const text = playbook(
    '- {step: constructor, tool: {kind: noop, toString: 1, result: {constructor: 1, hasOwnProperty: 2}}}\n- {step: toString, valueOf: 1, next: {arcs: [{step: valueOf}]}}\n',
  );
  const result = compileText(text);
  expect(result.ok ? [] : result.problems.map(({ code, path }) => `${code} ${path}`)).toEqual([
    'INVALID_STEP_SCHEMA workflow[0].tool.toString',
    'INVALID_STEP_SCHEMA workflow[1].valueOf',
    'ARC_TO_NOWHERE workflow[1].next.arcs[0].step',
  ]);
  expect(compileText(withTool('{kind: constructor}')).ok).toBe(false);
  expect(compileText(withTool('{kind: noop}', 'executor: {requires: {tools: [toString]}}\n')).ok).toBe(false);
});

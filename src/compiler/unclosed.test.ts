import { describe, expect, test } from 'vitest';
import { compileText } from './compile.fixture.ts';
import { findUnclosed } from './unclosed.ts';

const HEAD = 'apiVersion: runledger/v1\nkind: Playbook\n';
const REST = 'workflow:\n  - step: a\n    tool: {kind: noop}\n';

/** The places and messages of what is wrong. */
function problemsOf(text: string): string[] {
  const result = compileText(text);
  if (result.ok) return [];
  return result.problems.map(({ line, column, message }) => `${line}:${column} ${message}`);
}

describe('a bracket or a quote that is not closed is told where it is opened, and nothing that follows from it', () => {
  test.each([
    [
      'a mapping',
      `${HEAD}metadata: {name: x\n${REST}`,
      '3:11 { is opened here and not closed: a } is missing before line 4',
    ],
    [
      'a list inside a mapping',
      `${HEAD}metadata: {name: x, tags: [1, 2}\n${REST}`,
      '3:27 [ is opened here and not closed: a ] is missing before the } at 3:32',
    ],
    [
      'the outer one of two',
      `${HEAD}metadata: {name: x, extra: {a: 1}\n${REST}`,
      '3:11 { is opened here and not closed: a } is missing before line 4',
    ],
    [
      'the last of the file',
      `${HEAD}metadata: {name: x}\nworkflow:\n  - step: a\n    tool: {kind: noop`,
      '6:11 { is opened here and not closed: a } is missing before the end of the file',
    ],
    ['a double quote', `${HEAD}metadata: {name: "x}\n${REST}`, '3:18 the quote " is opened here and never closed'],
    ['a single quote', `${HEAD}metadata: {name: 'it''s}\n${REST}`, "3:18 the quote ' is opened here and never closed"],
  ])('%s', (_, text, expected) => {
    expect(problemsOf(text)).toEqual([expected]);
  });
});

test('what is closed is not reported, whatever stands in texts', () => {
  const texts = [
    `a: it's {fine\nb: "x { y"\nc: 'x [ y''s ['\nd: |\n  { [ "\n`,
    'a: {b: [1, {c: 2}], d: "e\\"}"}\n',
    'a: "\\\\"\nb: \'\'\nc: {}\nd: ["]", \'}\']\n# { [ "\n',
  ];
  for (const text of texts) expect(findUnclosed(text), text).toBeUndefined();
});

test('a template without quotes is still told as such', () => {
  expect(problemsOf(`${HEAD}metadata: {name: x}\nworkload:\n  url: {{ x }\n${REST}`)[0]).toContain(
    'must stand in quotes',
  );
});

test('a mistake before the opening is told as well', () => {
  const found = problemsOf(`${HEAD}workload:\n\ta: 1\nmetadata: {name: x\n${REST}`);
  expect(found.some((line) => line.includes('tab'))).toBe(true);
});

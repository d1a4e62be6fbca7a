import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Document, isMap, isScalar, parseDocument, type Scalar, visit } from 'yaml';
import { canonicalJson } from '../lib/canonical-json.ts';
import { compiled, folder } from './compile.fixture.ts';
import { compileSync } from './compile.ts';

const GOLDEN = ['fetch-cities', 'older-spellings', 'child', 'cursor'].map((name) =>
  readFileSync(new URL(`golden/${name}.yaml`, import.meta.url), 'utf8'),
);
const resolve = folder({ 'lib/child': GOLDEN[2]! });
const hash = (text: string): string => compiled(text, { resolve }).sha256;

/** The same values, written by other hands: order of keys, quotes, flow or block, indentation, comments. */
function rewrite(
  text: string,
  next: () => number,
  style: { indent: number; width: number; comments: boolean },
): string {
  const document = parseDocument(text, { keepSourceTokens: true });
  visit(document, {
    Map(_key, map) {
      // Sorting by a random key is a shuffle; plans are mappings, so order means nothing.
      const order = new Map(map.items.map((item) => [item, next()]));
      map.items.sort((a, b) => order.get(a)! - order.get(b)!);
      map.flow = next() < 0.3;
      if (style.comments && next() < 0.3) map.comment = ' a note: {{ with }} "quotes"';
    },
    Seq(_key, list) {
      list.flow = next() < 0.3;
    },
    Scalar(_key, scalar: Scalar) {
      if (typeof scalar.value !== 'string') return;
      const styles = scalar.value.includes('\n')
        ? (['QUOTE_DOUBLE', 'BLOCK_LITERAL', 'BLOCK_FOLDED'] as const)
        : (['QUOTE_DOUBLE', 'QUOTE_SINGLE', 'PLAIN'] as const);
      scalar.type = styles[Math.floor(next() * styles.length)]!;
    },
  });
  return document.toString({ indent: style.indent, lineWidth: style.width, flowCollectionPadding: next() < 0.5 });
}

function meaning(text: string): string | undefined {
  const document = parseDocument(text);
  return document.errors.length > 0 ? undefined : canonicalJson(document.toJS());
}

test('formatting, order of keys, quotes and comments do not change the hash', () => {
  const style = fc.record({
    indent: fc.integer({ min: 1, max: 8 }),
    width: fc.constantFrom(0, 80, 120),
    comments: fc.boolean(),
  });
  fc.assert(
    fc.property(
      fc.constantFrom(...GOLDEN),
      fc.infiniteStream(fc.double({ min: 0, max: 1, noNaN: true })),
      style,
      (text, stream, chosen) => {
        const next = (): number => stream.next().value as number;
        const rewritten = rewrite(text, next, chosen);
        // The library that rewrites breaks some texts at narrow widths; those are other values.
        fc.pre(meaning(rewritten) === meaning(text));
        expect(hash(rewritten)).toBe(hash(text));
      },
    ),
    { numRuns: 150, seed: 4 },
  );
});

test('line ends, a byte order mark and a document marker do not change the hash', () => {
  for (const text of GOLDEN) {
    expect(hash(text.replaceAll('\n', '\r\n'))).toBe(hash(text));
    expect(hash(`\uFEFF---\n${text}`)).toBe(hash(text));
    expect(hash(`# note\n${text}\n# end\n...\n`)).toBe(hash(text));
  }
});

test('anchors, aliases and merge keys do not change the hash', () => {
  const plain = 'a: {x: 1, y: [2, 3]}\n  b: {x: 1, y: [2, 3]}\n  c: {x: 9, y: [2, 3]}\n';
  const shared = 'a: &a {x: 1, y: &y [2, 3]}\n  b: *a\n  c: {<<: *a, x: 9}\n';
  const text = (workload: string): string =>
    `apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\nworkload:\n  ${workload}workflow:\n  - {step: s, tool: {kind: noop}}\n`;
  expect(hash(text(shared))).toBe(hash(text(plain)));
});

test('any other value changes the hash', () => {
  const text = GOLDEN[0]!;
  const document = parseDocument(text);
  const seen = new Set([hash(text)]);
  let changes = 1;
  visit(document, {
    Scalar(key, scalar: Scalar) {
      if (key === 'key' || typeof scalar.value !== 'number' || !isScalar(scalar)) return;
      const before = scalar.value;
      const source = scalar.source;
      scalar.value = before + 1;
      delete scalar.source;
      seen.add(hash(document.toString()));
      scalar.value = before;
      if (source !== undefined) scalar.source = source;
      changes++;
    },
  });
  expect(changes).toBeGreaterThan(8);
  expect(seen.size).toBe(changes);
});

test('compiling is a function of the text: again, and from another file, the same bytes', () => {
  const text = GOLDEN[3]!;
  const one = compileSync({ text, file: 'a.yaml' });
  const two = compileSync({ text, file: 'b/c.yaml' });
  expect(one.ok && two.ok && one.json === two.json).toBe(true);
});

test('a document made by a program compiles as one made by hand', () => {
  const value = parseDocument(GOLDEN[2]!).toJS();
  const document = new Document(value);
  expect(isMap(document.contents)).toBe(true);
  expect(hash(document.toString())).toBe(hash(GOLDEN[2]!));
  expect(hash(JSON.stringify(value, null, 1))).toBe(hash(GOLDEN[2]!));
});

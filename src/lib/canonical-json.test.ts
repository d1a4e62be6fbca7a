import fc from 'fast-check';
import { expect, test } from 'vitest';
import { canonicalJson } from './canonical-json.ts';
import { jsonProblem } from './json-problem.ts';
import { sameJson } from './same-json.ts';

test('the example of RFC 8785 section 3.2.2 gives the text of section 3.2.3', () => {
  const source = `{
    "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
    "string": "\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\"\\/",
    "literals": [null, true, false]
  }`;
  expect(canonicalJson(JSON.parse(source))).toBe(
    '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],' +
      '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
  );
});

test('keys are sorted by UTF-16 code unit, as in RFC 8785 section 3.2.3', () => {
  const value = {
    '\u20ac': 'Euro Sign',
    '\r': 'Carriage Return',
    '\ufb33': 'Hebrew Letter Dalet With Dagesh',
    '1': 'One',
    '\ud83d\ude00': 'Emoji: Grinning Face',
    '\u0080': 'Control',
    '\u00f6': 'Latin Small Letter O With Diaeresis',
  };
  expect(Object.values(JSON.parse(canonicalJson(value)) as object).sort()).toEqual(Object.values(value).sort());
  expect([...canonicalJson(value).matchAll(/:"(.*?)"/g)].map((match) => match[1])).toEqual([
    'Carriage Return',
    'One',
    'Control',
    'Latin Small Letter O With Diaeresis',
    'Euro Sign',
    'Emoji: Grinning Face',
    'Hebrew Letter Dalet With Dagesh',
  ]);
});

test('numbers have the form of RFC 8785 appendix B', () => {
  const bits: [string, string][] = [
    ['0000000000000000', '0'],
    ['8000000000000000', '0'],
    ['0000000000000001', '5e-324'],
    ['8000000000000001', '-5e-324'],
    ['7fefffffffffffff', '1.7976931348623157e+308'],
    ['ffefffffffffffff', '-1.7976931348623157e+308'],
    ['4340000000000000', '9007199254740992'],
    ['c340000000000000', '-9007199254740992'],
    ['4430000000000000', '295147905179352830000'],
    ['44b52d02c7e14af5', '9.999999999999997e+22'],
    ['44b52d02c7e14af6', '1e+23'],
    ['44b52d02c7e14af7', '1.0000000000000001e+23'],
    ['444b1ae4d6e2ef4e', '999999999999999700000'],
    ['444b1ae4d6e2ef50', '1e+21'],
    ['3eb0c6f7a0b5ed8c', '9.999999999999997e-7'],
    ['3eb0c6f7a0b5ed8d', '0.000001'],
    ['41b3de4355555553', '333333333.3333332'],
    ['41b3de4355555557', '333333333.33333343'],
    ['becbf647612f3696', '-0.0000033333333333333333'],
    ['43143ff3c1cb0959', '1424953923781206.2'],
  ];
  for (const [hex, text] of bits) expect(canonicalJson(Buffer.from(hex, 'hex').readDoubleBE(0))).toBe(text);
});

test('what JSON cannot say is refused: NaN, infinities, functions, symbols, big integers, dates, maps, instances', () => {
  class Point {
    x = 1;
  }
  const values = [Number.NaN, Infinity, -Infinity, () => 1, Symbol('s'), 1n, new Date(0), new Map(), new Set([1])];
  for (const value of [...values, new Point(), /x/, new Uint8Array(2), undefined, Object('text')]) {
    expect(() => canonicalJson(value)).toThrow(TypeError);
    if (value !== undefined) expect(() => canonicalJson({ a: [value] })).toThrow(TypeError);
  }
});

test('cyclic and very deep values are refused instead of exhausting the stack', () => {
  const cyclic: Record<string, unknown> = {};
  cyclic['self'] = { again: cyclic };
  expect(() => canonicalJson(cyclic)).toThrow(TypeError);
  const nest = (depth: number): unknown => JSON.parse(`${'['.repeat(depth)}${']'.repeat(depth)}`);
  expect(() => canonicalJson(nest(100_000))).toThrow(TypeError);
  expect(canonicalJson(nest(200))).toHaveLength(400);
});

test('own keys named like inherited ones are written and nothing inherited is', () => {
  const value = JSON.parse('{"constructor":1,"__proto__":{"x":1},"a":2}') as unknown;
  expect(canonicalJson(value)).toBe('{"__proto__":{"x":1},"a":2,"constructor":1}');
  expect(canonicalJson(Object.assign(Object.create(null), { b: 1, a: undefined }))).toBe('{"b":1}');
});

test('any JSON value keeps its meaning, and its text depends on nothing but its meaning', () => {
  const shuffled = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(shuffled);
    if (typeof value !== 'object' || value === null) return value;
    const entries = Object.entries(value).map(([key, item]) => [key, shuffled(item)] as const);
    return Object.fromEntries(entries.reverse());
  };
  fc.assert(
    fc.property(fc.jsonValue({ noUnicodeString: false }), (value) => {
      const text = canonicalJson(value);
      expect(sameJson(JSON.parse(text), JSON.parse(JSON.stringify(value)))).toBe(true);
      expect(canonicalJson(shuffled(value))).toBe(text);
      expect(canonicalJson(JSON.parse(text))).toBe(text);
      expect(jsonProblem(value)).toBeUndefined();
    }),
  );
});

test('the place of a value that is refused is named as a JSON pointer', () => {
  expect(jsonProblem({ a: [1, { 'b/c~': new Date(0) }] })).toEqual({
    path: '/a/1/b~1c~0',
    message: 'canonical JSON takes plain objects only',
  });
  expect(jsonProblem(1n)).toMatchObject({ path: '' });
  const cyclic: Record<string, unknown> = { fine: 1 };
  cyclic['self'] = cyclic;
  expect(jsonProblem(cyclic)?.path).toMatch(/^\/self\/self/);
});

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { AppError } from '../../contracts/errors.ts';
import { canonicalJson } from '../../lib/canonical-json.ts';
import { compileTemplate } from './compile-template.ts';
import { compileValue } from './compile-value.ts';
import { NeedValues } from './evaluation.ts';
import { EXPRESSION_NAMES } from './expression-names.ts';
import { ExternalValue, ResultValue } from './external-value.ts';
import corpus from './fixtures/jinja-corpus.json' with { type: 'json' };

const TEMPLATES = corpus.cases.map(([template]) => template as string);
const { filters, tests, methods } = EXPRESSION_NAMES;
const LIMITS = { maxSteps: 20_000, maxLength: 20_000, maxItems: 5_000 };

/** Data as hostile as JSON can be, and things that should not be there at all. */
const SCOPE: Record<string, unknown> = {
  ...corpus.scope,
  stored: new ExternalValue({ ref: 'r', fields: { a: 1 } }),
  result: new ResultValue([1, 2], { count: 2 }),
  hostile: JSON.parse('{"__proto__": {"x": 1}, "constructor": {"prototype": 2}, "get": 3, "items": [1]}'),
  host: new Date(0),
  call: () => 'host',
};
const ROOTS = Object.keys(SCOPE);

const OPERATORS = '+ - * / // % ** ~ == != < > <= >= in and or'.split(' ').concat('not in');
const LITERALS = [
  ...['1', '0', '-1', '2.5', '1e300', "'a'", "''", "'%s'", "'{}'", "'{:>5}'", 'true', 'none', '[]', "[1, 'a', none]"],
  ...["{'a': 1}", "'__proto__'", "'constructor'", 'range(5)', 'dict(a=1)', "'(a|b)*c'", 'missing', 'loop', "'%Y'"],
];
const JUNK = [
  ...['{{', '}}', '{%', '%}', '{#', '#}', '-', '|', '(', ')', '[', ']', '{', '}', "'", '"', '\\', ' is ', ' not '],
  ...[' in ', ' if ', ' else ', '\n', '\0', 'é', '😀', '..', ',', '=', ':', '~', '**', '__proto__', '{% raw %}'],
  ...['{% endraw %}', '{% endif %}', '{% set x = 1 %}', '1e', '_', '\u2028', '{% generation %}'],
];
const ATTRIBUTES = ['a', 'b', '__proto__', 'constructor', 'prototype', 'items', 'length', 'count', 'data', 'toString'];

/** A small generator with a fixed seed, so that a failure comes back. */
class Chance {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!;
  }
}

function expression(chance: Chance, depth: number): string {
  const inner = () => expression(chance, depth - 1);
  if (depth <= 0) return chance.pick(chance.next() < 0.5 ? ROOTS : LITERALS);
  const list = (count: number) => Array.from({ length: count }, () => expression(chance, depth - 2)).join(', ');
  switch (chance.below(11)) {
    case 0:
      return `${inner()} ${chance.pick(OPERATORS)} ${inner()}`;
    case 1:
    case 2:
    case 3: {
      const { name, params } = chance.pick(filters);
      const count = chance.below(params.length + 1);
      return `${inner()} | ${name}${count === 0 ? '' : `(${list(count)})`}`;
    }
    case 4: {
      const { name, params } = chance.pick(tests);
      return `${inner()} is ${chance.pick(['', 'not '])}${name}${params.length === 0 ? '' : ` ${expression(chance, 0)}`}`;
    }
    case 5: {
      const { name, params } = chance.pick(methods);
      return `(${inner()}).${name}(${list(chance.below(params.length + 2))})`;
    }
    case 6:
      return `${inner()} if ${inner()} else ${inner()}`;
    case 7:
      return `[${inner()}, ${inner()}]`;
    case 8:
      return `{${expression(chance, 0)}: ${inner()}}`;
    case 9:
      return `(${inner()})[${chance.pick([list(1), ':', `${list(1)}:`, `:${list(1)}:${list(1)}`])}]`;
    default:
      return `${chance.pick(['not ', '-', ''])}(${inner()}).${chance.pick(ATTRIBUTES)}`;
  }
}

function statement(chance: Chance, depth: number): string {
  const e = () => expression(chance, 2);
  const body = depth > 0 ? statement(chance, depth - 1) : '{{ x }}';
  switch (chance.below(6)) {
    case 0:
      return `{% if ${e()} %}${body}{% elif ${e()} %}y{% else %}z{% endif %}`;
    case 1:
      return `{% for x in ${e()} if ${e()} %}${body}{{ loop.${chance.pick(['index', 'nextitem', 'cycle(1)'])} }}{% endfor %}`;
    case 2:
      return `{% set x = ${e()} %}${body}`;
    case 3:
      return `{% macro f(x, y=${e()}) %}${body}{% endmacro %}{{ f(${e()}) }}`;
    case 4:
      return `{% filter ${chance.pick(filters).name} %}${body}{% endfilter %}`;
    default:
      return `{% set x = namespace() %}{% for i in range(3) %}{% set x.k = ${e()} %}{% endfor %}${body}`;
  }
}

function mutated(chance: Chance, template: string): string {
  let text = template;
  for (let n = 1 + chance.below(4); n > 0; n--) {
    const from = chance.below(text.length + 1);
    const to = Math.min(text.length, from + chance.below(6));
    const other = chance.pick(TEMPLATES);
    const middle = chance.pick([
      '',
      chance.pick(JUNK),
      text.slice(from, to).repeat(2),
      other.slice(chance.below(other.length)),
    ]);
    text = text.slice(0, from) + middle + text.slice(to);
  }
  return text;
}

function template(chance: Chance): string {
  switch (chance.below(5)) {
    case 0:
    case 1:
      return mutated(chance, chance.pick(TEMPLATES));
    case 2:
      return `{{ ${expression(chance, 3)} }}`;
    case 3:
      return statement(chance, 2);
    default:
      return mutated(chance, chance.next() < 0.5 ? `{{ ${expression(chance, 3)} }}` : statement(chance, 1));
  }
}

describe('hostile templates', () => {
  const natives =
    Object.getOwnPropertyNames(Object.prototype).length + Object.getOwnPropertyNames(Array.prototype).length;

  test.each([1, 2, 3, 4, 5, 6])(
    'whatever is written (seed %i), the outcome is JSON, a coded error or a need',
    (seed) => {
      const chance = new Chance(seed);
      const outcomes = new Map<string, number>();
      for (let i = 0; i < 700; i++) {
        const source = template(chance);
        let outcome: string;
        try {
          const value = compileTemplate(source).evaluate(SCOPE, { limits: LIMITS });
          if (value !== undefined) canonicalJson(value);
          outcome = 'value';
        } catch (error) {
          const isCoded = error instanceof AppError && error.code.startsWith('TEMPLATE_');
          if (!isCoded && !(error instanceof NeedValues))
            throw new Error(`${source}\n${String(error)}`, { cause: error });
          if (isCoded) expect(error.details).toMatchObject({ line: expect.any(Number), column: expect.any(Number) });
          outcome = isCoded ? error.code : 'need';
        }
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      }
      // A fuzzer that only meets syntax errors tests nothing.
      for (const kind of ['value', 'TEMPLATE_TYPE', 'TEMPLATE_SYNTAX', 'TEMPLATE_UNDEFINED']) {
        expect(outcomes.get(kind) ?? 0).toBeGreaterThan(10);
      }
      expect(
        Object.getOwnPropertyNames(Object.prototype).length + Object.getOwnPropertyNames(Array.prototype).length,
      ).toBe(natives);
      expect('x' in {}).toBe(false);
    },
  );
});

describe('laws', () => {
  const json = fc.jsonValue({ maxDepth: 4 }).map((value) => JSON.parse(JSON.stringify(value)) as unknown);

  test('a value survives tojson and fromjson', () => {
    const template = compileTemplate('{{ v | tojson | fromjson == v }}');
    fc.assert(fc.property(json, (v) => template.evaluate({ v }) === true));
  });

  test('a value that is only passed on is the same value', () => {
    fc.assert(
      fc.property(json, (v) => {
        expect(compileTemplate('{{ v }}').evaluate({ v })).toBe(v);
        expect(compileTemplate('{{ [v][0] }}').evaluate({ v })).toEqual(v);
      }),
    );
  });

  test('the order of keys in memory changes nothing', () => {
    const reversed = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(reversed);
      if (typeof value !== 'object' || value === null) return value;
      return Object.fromEntries(
        Object.entries(value)
          .reverse()
          .map(([key, inner]) => [key, reversed(inner)]),
      );
    };
    const templates = [
      '{{ v | tojson }}',
      'x{{ v }}',
      '{{ v | list }}',
      '{% for k in v %}{{ k }}{% endfor %}',
      '{{ [v, 1] | first }}',
    ];
    fc.assert(
      fc.property(fc.dictionary(fc.string(), json), (v) => {
        for (const source of templates) {
          const compiled = compileTemplate(source);
          expect(canonicalJson(compiled.evaluate({ v: reversed(v) }))).toBe(canonicalJson(compiled.evaluate({ v })));
        }
      }),
    );
  });

  test('text without a delimiter is never touched, wherever it stands', () => {
    const text = fc.string({ unit: 'binary' }).filter((value) => !/\{[{%#]/.test(value));
    fc.assert(
      fc.property(text, json, (value, other) => {
        expect(compileTemplate(value).evaluate({})).toBe(value);
        expect(compileValue({ value, other: JSON.stringify(other).includes('{') ? 1 : other }).isStatic).toBe(true);
      }),
    );
  });

  test('whole division and remainder belong together', () => {
    const template = compileTemplate('{{ (a // b) * b + a % b == a and (a % b == 0 or (a % b > 0) == (b > 0)) }}');
    const whole = fc.integer({ min: -1_000_000, max: 1_000_000 });
    fc.assert(
      fc.property(
        whole,
        whole.filter((b) => b !== 0),
        (a, b) => template.evaluate({ a, b }) === true,
      ),
    );
  });

  test('sorting, batching and slicing lose nothing', () => {
    const template = compileTemplate(
      '{{ (l | batch(n) | sum(start=[])) == l and (l | slice(n) | sum(start=[])) == l and (l | sort | length) == (l | length)' +
        ' and l[:n] + l[n:] == l and l[::-1] == l | reverse | list and (l | sort) == (l | sort(reverse=true) | reverse | list) }}',
    );
    fc.assert(
      fc.property(
        fc.array(fc.integer()),
        fc.integer({ min: 1, max: 9 }),
        (l, n) => template.evaluate({ l, n }) === true,
      ),
    );
  });

  test('evaluating twice gives the same', () => {
    const chance = new Chance(99);
    for (let i = 0; i < 300; i++) {
      const source = chance.pick(TEMPLATES);
      const run = () => {
        try {
          return JSON.stringify(compiled?.evaluate(corpus.scope));
        } catch (error) {
          return String(error);
        }
      };
      let compiled: ReturnType<typeof compileTemplate> | undefined;
      try {
        compiled = compileTemplate(source);
      } catch {
        continue;
      }
      expect(run()).toBe(run());
    }
  });
});

import { describe, expect, test } from 'vitest';
import { AppError } from '../../contracts/errors.ts';
import { compileTemplate } from './compile-template.ts';
import { compileValue } from './compile-value.ts';
import type { EvalOptions } from './evaluation.ts';
import { MAX_SOURCE_LENGTH } from './scan-blocks.ts';

function evaluate(template: string, scope: Record<string, unknown> = {}, options?: EvalOptions): unknown {
  return compileTemplate(template).evaluate(scope, options);
}

function codeOf(template: string, scope: Record<string, unknown> = {}, options?: EvalOptions): string {
  try {
    evaluate(template, scope, options);
  } catch (error) {
    if (error instanceof AppError) return error.code;
    throw error;
  }
  return 'none';
}

describe('nothing of the host can be reached', () => {
  const scope = { o: { a: 1 }, l: [1], s: 'text', n: 1, t: true };

  test.each([
    'constructor',
    '__proto__',
    'prototype',
    'toString',
    'valueOf',
    'hasOwnProperty',
    'length',
    '__class__',
    '__defineGetter__',
  ])('attribute %s of any value is undefined', (name) => {
    for (const root of Object.keys(scope)) {
      expect(evaluate(`{{ ${root}.${name} is defined }}`, scope)).toBe(false);
      expect(evaluate(`{{ ${root}['${name}'] is defined }}`, scope)).toBe(false);
      expect(evaluate(`{{ ${root} | attr('${name}') is defined }}`, scope)).toBe(false);
      expect(evaluate(`{{ [${root}] | map(attribute='${name}') | select('defined') | list }}`, scope)).toEqual([]);
    }
  });

  test.each(['constructor', '__proto__', 'toString', 'hasOwnProperty'])('the root name %s does not exist', (name) => {
    expect(codeOf(`{{ ${name} }}`, scope)).toBe('TEMPLATE_UNDEFINED');
  });

  test.each([
    "{{ o.constructor('return 1')() }}",
    "{{ s.constructor.constructor('return process')() }}",
    '{{ o.toString() }}',
    '{{ range.constructor }}',
    "{{ '{0.__class__}'.format(o) }}",
    "{{ l | map('constructor') | list }}",
    '{{ o | hasOwnProperty }}',
    '{{ o is constructor }}',
    '{{ loop }}',
    '{{ o.a() }}',
    "{{ o['get']('a') }}",
  ])('%s is refused', (template) => {
    expect(codeOf(template, scope)).toMatch(/^TEMPLATE_(?:SYNTAX|FORBIDDEN|UNDEFINED|TYPE)$/);
  });

  test('inherited, hidden and computed properties do not exist, and no getter runs', () => {
    let ran = false;
    const trap = Object.defineProperties(Object.create({ inherited: 1 }) as Record<string, unknown>, {
      hidden: { value: 1, enumerable: false },
    });
    const computed = Object.defineProperty({}, 'x', { enumerable: true, get: () => (ran = true) });
    expect(evaluate('{{ [t.inherited, t.hidden, c.x] }}', { t: trap, c: computed })).toEqual([null, null, null]);
    expect(evaluate('{{ c | tojson }}', { c: computed })).toBe('{}');
    expect(ran).toBe(false);
  });

  test.each([
    ['a Date', new Date(0)],
    ['a function', () => 1],
    ['a symbol', Symbol('x')],
    ['a bigint', 1n],
    ['a Map', new Map([['a', 1]])],
    [
      'an instance',
      new (class Host {
        a = 1;
      })(),
    ],
    ['NaN', Number.NaN],
  ])('%s in the scope does not leave it', (_, value) => {
    for (const template of ['{{ v }}', '{{ [v] }}', "{{ {'k': v} }}", '{{ v | tojson }}', '{{ o.v }}']) {
      expect(codeOf(template, { v: value, o: { v: value } })).toBe('TEMPLATE_TYPE');
    }
    expect(evaluate('{{ v.a is defined }}', { v: value })).toBe(false);
  });

  test('__proto__ is a key like any other, read and written', () => {
    const parsed: unknown = JSON.parse('{"__proto__": {"polluted": 1}, "constructor": 2}');
    const read = evaluate('{{ [v.__proto__.polluted, v.constructor] }}', { v: parsed });
    expect(read).toEqual([1, 2]);
    const templates = [
      "{{ {'__proto__': {'polluted': 1}} }}",
      '{{ text | fromjson }}',
      "{{ dict([['__proto__', {'polluted': 1}]]) }}",
      "{{ v | combine({'x': 1}) }}",
      '{{ {} | combine(v, recursive=true) }}',
      '{{ v | dictsort | dict }}',
      "{{ dict(v, __proto__={'polluted': 1}) }}",
    ];
    for (const template of templates) {
      const result = evaluate(template, { v: parsed, text: '{"__proto__": {"polluted": 1}}' }) as object;
      expect(Object.getPrototypeOf(result)).toBe(Object.prototype);
      expect(Object.hasOwn(result, '__proto__')).toBe(true);
      expect(JSON.stringify(result)).toContain('"__proto__":{"polluted":1}');
      expect('polluted' in {}).toBe(false);
    }
    const value = compileValue(JSON.parse('{"__proto__": {"polluted": "{{ 1 }}"}}')).evaluate({}) as object;
    expect(Object.hasOwn(value, '__proto__')).toBe(true);
    expect('polluted' in {}).toBe(false);
  });

  test('a namespace does not outlive its evaluation', () => {
    const template = compileTemplate('{% set ns = namespace(n=0) %}{% set ns.n = ns.n + 1 %}{{ ns.n }}');
    expect(template.evaluate({})).toBe('1');
    expect(template.evaluate({})).toBe('1');
  });
});

describe('every evaluation is bounded', () => {
  const long = 'x'.repeat(100_000);
  const rows = Array.from({ length: 1000 }, (_, a) => ({ a }));
  const hay = 'a'.repeat(2_000_000);
  const needle = `${'a'.repeat(500_000)}b${'a'.repeat(500_000)}`;
  const big = Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [`k${i}`, i]));
  const zeros = `%${'0'.repeat(1_000_000)}`;
  const scope = { long, rows, hay, hay2: `${hay.slice(1)}b`, needle, big, zeros };
  test.each([
    "{{ 'a' * 1000000000 }}",
    '{{ [0] * 1000000000 }}',
    '{{ range(1000000000) }}',
    '{{ range(0, 1000000000000, 1) | length }}',
    '{{ [[[[1] * 1000] * 1000] * 1000] * 1000 }}',
    '{{ ([[[1] * 1000] * 1000] * 1000) | tojson | length }}',
    '{{ ([[[1] * 1000] * 1000] * 1000) | flatten | length }}',
    '{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}',
    '{% for a in range(100000) %}{% set x = long | upper %}{% endfor %}',
    '{% for a in range(100000) %}{{ long }}{% endfor %}',
    "{% set ns = namespace(s='x') %}{% for a in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    '{% set ns = namespace(l=[1]) %}{% for a in range(100) %}{% set ns.l = ns.l + ns.l %}{% endfor %}',
    '{% set ns = namespace(l=[1]) %}{% for a in range(100) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}',
    "{{ long | replace('x', long) }}",
    "{{ long | replace('', long) }}",
    "{{ long.replace('', long) }}",
    '{{ range(100000) | join(long) }}',
    '{{ [1] | batch(1000000000, 0) | list }}',
    '{{ [1] | slice(1000000000) | list }}',
    "{{ 'x' | center(1000000000) }}",
    "{{ 'x' | indent(1000000000, true) }}",
    "{{ '%1000000000d' | format(1) }}",
    "{{ '{:>1000000000}'.format(1) }}",
    "{{ '7'.zfill(1000000000) }}",
    '{{ 10 ** 1000 }}',
    '{{ 1e308 * 10 }}',
    '{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}',
    '{% macro f(n) %}{{ f(n - 1) ~ f(n - 1) if n else "x" }}{% endmacro %}{{ f(40) }}',
    "{{ ('a' * 20000) | regex_replace('a.*b|a', 'x') }}",
    "{{ ('a' * 100000) | regex_findall('\\\\Q[\\\\Ea?.*b|a') | length }}",
    "{{ ('a' * 100000) | regex_findall('(a)?[^b]*b|a') | length }}",
    "{% for x in range(100000) %}{{ 'x' if needle in hay }}{% endfor %}",
    '{{ ([hay, needle] * 1000) | sort | length }}',
    "{{ ([hay, needle] * 1000) | unique | list | length }}{{ ([hay] * 1000) | select('eq', hay2) | list | length }}",
    "{{ ([hay] * 1000) | map('trim', 'a') | list }}",
    "{{ '%' ~ zeros | format }}{{ ([zeros] * 100) | map('format', 1) | list }}",
    '{% for x in range(1000000) %}{% if big %}{% endif %}{% endfor %}',
    '{{ 1 | round(100) }}',
    "{{ '[' * 300 ~ ']' * 300 }}{{ ('[' * 300 ~ ']' * 300) | fromjson }}",
    "{{ 'x' | regex_replace('a' * 2000, '') }}",
    "{{ long | list | map('replace', '', long) | list }}",
    "{{ (range(1000) | list) | map('string') | map('replace', '', long) | list }}",
    "{{ 'x' | b64encode * 100000000 }}",
    "{{ rows | groupby('a') | map(attribute='list') | map('tojson') | join(long) }}",
  ])('%s ends with TEMPLATE_LIMIT', (template) => {
    expect(codeOf(template, scope)).toMatch(/^TEMPLATE_(?:LIMIT|TYPE)$/);
  });

  test('limits can be set per evaluation', () => {
    expect(codeOf('{{ range(11) }}', {}, { limits: { maxItems: 10 } })).toBe('TEMPLATE_LIMIT');
    expect(codeOf('{{ range(10) }}', {}, { limits: { maxItems: 10 } })).toBe('none');
    expect(codeOf('abc{{ 1 }}', {}, { limits: { maxLength: 3 } })).toBe('TEMPLATE_LIMIT');
    expect(codeOf("{{ l | map('string') | list }}", { l: [1, 2, 3] }, { limits: { maxSteps: 5 } })).toBe(
      'TEMPLATE_LIMIT',
    );
    const nested = '{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}';
    expect(codeOf(nested, {}, { limits: { maxDepth: 5 } })).toBe('TEMPLATE_LIMIT');
    expect(codeOf(nested, {}, { limits: { maxDepth: 6 } })).toBe('none');
  });

  test('data nested too deeply is refused where it is walked', () => {
    let deep: unknown = 1;
    for (let i = 0; i < 100_000; i++) deep = [deep];
    for (const template of ['{{ [d] }}', '{{ d | tojson }}', '{{ d == e }}', '{{ d < e }}', 'x{{ d }}']) {
      expect(codeOf(template, { d: deep, e: JSON.parse(`${'['.repeat(5000)}1${']'.repeat(5000)}`) })).toBe(
        'TEMPLATE_LIMIT',
      );
    }
    expect(evaluate('{{ d }}', { d: deep })).toBe(deep);
  });

  test.each([
    ['brackets', `{{ ${'('.repeat(50_000)}1${')'.repeat(50_000)} }}`],
    ['lists', `{{ ${'['.repeat(5000)}${']'.repeat(5000)} }}`],
    ['not', `{{ ${'not '.repeat(20_000)}1 }}`],
    ['minus', `{{ ${'- '.repeat(20_000)}1 }}`],
    ['minus after plus', `{{ 1 + ${'-'.repeat(20_000)}1 }}`],
    ['ternaries', `{{ ${'1 if 1 else '.repeat(5000)}1 }}`],
    ['a long sum', `{{ 1${' + 1'.repeat(15_000)} }}`],
    ['many attributes', `{{ a${'.b'.repeat(20_000)} }}`],
    ['many filters', `{{ a${'|d'.repeat(20_000)} }}`],
    ['many tests', `{{ a${' is in b'.repeat(5000)} }}`],
    ['nested tests', `{{ ${'a is in ['.repeat(7000)}1${']'.repeat(7000)} }}`],
    ['statements', `${'{% if 1 %}'.repeat(20_000)}${'{% endif %}'.repeat(20_000)}`],
    ['many blocks', '{{ 1 }}'.repeat(60_000)],
    ['too long', `{{ 1 }}${'x'.repeat(MAX_SOURCE_LENGTH)}`],
  ])('a template with too many %s is refused', (_, template) => {
    expect(codeOf(template, { a: 1, b: [] })).toBe('TEMPLATE_LIMIT');
  });

  test('long white space, comments and open blocks take linear time', () => {
    const space = ' '.repeat(500_000);
    expect(evaluate(`{{${space}1${space}}}`)).toBe(1);
    expect(evaluate(`${space}{% if 1 %}${space}{% endif %}x`)).toBe(`${space}${space}x`);
    expect(evaluate(`${'{#'.repeat(100_000)}#}{{ 1 }}`)).toBe(1);
    expect(codeOf('{%'.repeat(100_000))).toMatch(/^TEMPLATE_/);
    expect(codeOf('{{'.repeat(100_000))).toMatch(/^TEMPLATE_/);
    expect(codeOf(`{% raw %}${'{% '.repeat(100_000)}`)).toBe('TEMPLATE_SYNTAX');
    expect(codeOf('{{ 1 }}{#'.repeat(50_000))).toMatch(/^TEMPLATE_/);
  });

  test.each(['(a+)+$', '(a|aa)+$', '(?:a*)*b', '(.*)*x', '((a?){20}){20}b'])(
    'the pattern %s cannot hang',
    (pattern) => {
      expect(evaluate('{{ text | regex_search(p) }}', { text: `${'a'.repeat(20_000)}!`, p: pattern })).toSatisfy(
        (found) => found === null || Array.isArray(found),
      );
    },
  );
});

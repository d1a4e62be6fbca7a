import { describe, expect, test } from 'vitest';
import { AppError } from '../../contracts/errors.ts';
import { compileTemplate } from './compile-template.ts';
import type { EvalOptions, Scope } from './evaluation.ts';

const scope = {
  ctx: { total: 3, name: 'Ann', list: [1, 2, 3], items: 'data', nothing: null, deep: { a: { b: 5 } } },
  event: { name: 'step.done' },
  workload: { cities: ['Rome', 'Paris'], flag: false },
};

function evaluate(template: string, given: Scope = scope, options?: EvalOptions): unknown {
  return compileTemplate(template).evaluate(given, options);
}

function failure(template: string, given: Scope = scope, options?: EvalOptions): AppError {
  try {
    evaluate(template, given, options);
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
  throw new Error(`no error from ${template}`);
}

describe('the type of a result', () => {
  test.each([
    ['{{ ctx.list }}', [1, 2, 3]],
    ['  {{ ctx.total }}\n', 3],
    ['{# why #} {{ workload.flag }}', false],
    ['{{ ctx.nothing }}', null],
    ['{{ ctx.missing }}', undefined],
    ["{{ {'a': [1, {'b': ctx.total}]} }}", { a: [1, { b: 3 }] }],
  ])('a lone %s keeps its native type', (template, expected) => {
    expect(compileTemplate(template).isLone).toBe(true);
    expect(evaluate(template)).toEqual(expected);
  });

  test.each([
    ['{{ ctx.total }}!', '3!'],
    ['{{ ctx.total }}{{ ctx.total }}', '33'],
    ['{% if true %}{{ ctx.total }}{% endif %}', '3'],
    ['{{ workload.flag }} {{ ctx.nothing }} [{{ ctx.missing }}]', 'False None []'],
    ["{{ ctx.list }} and {{ {'b': 1, 'a': [true, none]} }}", '[1, 2, 3] and {"a": [true, null], "b": 1}'],
    ['{{ 1.0 }} {{ 1e21 }} {{ 0.00001 }} {{ 2.50 }}', '1 1000000000000000000000 1e-05 2.5'],
  ])('%s gives text, lists and mappings in it as JSON', (template, expected) => {
    expect(compileTemplate(template).isLone).toBe(false);
    expect(evaluate(template)).toBe(expected);
  });

  test('text without a block passes through untouched', () => {
    const template = compileTemplate('plain { text } with 100% of } braces\n');
    expect(template.isStatic).toBe(true);
    expect(template.evaluate({})).toBe('plain { text } with 100% of } braces\n');
  });

  test('undefined items become null and undefined keys are left out', () => {
    expect(evaluate("{{ [ctx.zz, {'a': ctx.zz, 'b': 1}] }}")).toStrictEqual([null, { b: 1 }]);
  });

  test('mappings are visited in the order of their keys, however they were built', () => {
    const template = '{% for k in m %}{{ k }}{% endfor %} {{ m.keys() }} {{ m | tojson }}';
    const text = 'ab ["a", "b"] {"a": 2, "b": 1}';
    expect(evaluate(template, { m: { b: 1, a: 2 } })).toBe(text);
    expect(evaluate(template, { m: { a: 2, b: 1 } })).toBe(text);
  });
});

describe('names', () => {
  test('roots are the free names, once each, without locals and functions', () => {
    const source =
      '{% set x = a %}{% for i, j in b.c %}{{ i + j + x + loop.index }}{% endfor %}{{ range(d) }}{{ x }}' +
      '{% macro f(p) %}{{ p }}{{ e }}{% endmacro %}{{ f(a) }}{{ g is defined }}{{ h | default(k) }}{{ m[n].o }}';
    expect(compileTemplate(source).roots).toEqual(['a', 'b', 'd', 'e', 'g', 'h', 'k', 'm', 'n']);
  });

  test('references tell the place of every name and whether it may be missing', () => {
    expect(compileTemplate('{{ a.b }} {{ c | default(a) }}').references).toEqual([
      { name: 'a', offset: 3, isGuarded: false },
      { name: 'c', offset: 13, isGuarded: true },
      { name: 'a', offset: 25, isGuarded: false },
    ]);
  });

  test('a set that reads the name of the scope is not local before it', () => {
    const template = compileTemplate('{% set total = total + 1 %}{{ total }}');
    expect(template.roots).toEqual(['total']);
    expect(template.evaluate({ total: 1 })).toBe('2');
  });

  test('a scope may be a pair of functions', () => {
    expect(evaluate('{{ a.b }}', new Map([['a', { b: 7 }]]))).toBe(7);
    expect(failure('{{ a }}', new Map()).code).toBe('TEMPLATE_UNDEFINED');
  });

  test('a name that is present but undefined is not missing', () => {
    expect(evaluate('{{ a }}', { a: undefined })).toBeUndefined();
  });

  test.each([
    '{{ nope is defined }}',
    '{{ nope.a.b is defined }}',
    '{{ ctx.nope.a[0].b is defined }}',
    '{{ nope is not undefined }}',
    "{{ nope.get('x') is defined }}",
  ])('%s is false and no error', (template) => {
    expect(evaluate(template)).toBe(false);
  });

  test.each([
    "{{ nope | default('x') }}",
    "{{ nope.a.b | d('x') }}",
    "{{ '' | default('x', true) }}",
    "{{ ctx.zz | default(default_value='x') }}",
    "{{ false and nope or 'x' }}",
    "{{ 'x' or nope }}",
    "{{ 'x' if true else nope }}",
    "{{ 'x' | default(nope) }}",
  ])('%s does not ask for the missing name', (template) => {
    expect(evaluate(template)).toBe('x');
  });

  test.each([
    '{{ nope }}',
    '{{ nope.a }}',
    '{% if nope %}{% endif %}',
    '{{ [1, nope] }}',
    '{{ nope | length }}',
    '{{ not nope }}',
  ])('%s is an error that names the name', (template) => {
    const error = failure(template);
    expect(error.code).toBe('TEMPLATE_UNDEFINED');
    expect(error.details).toMatchObject({ name: 'nope', offset: template.indexOf('nope'), line: 1 });
  });

  test('an attribute of undefined is undefined, also through calls', () => {
    expect(evaluate("{{ ctx.zz.yy[0]['x'].get('q').lower() }}")).toBeUndefined();
    expect(evaluate('{{ ctx.zz.yy | length }}')).toBe(0);
    expect(evaluate('{% for x in ctx.zz %}never{% else %}empty{% endfor %}')).toBe('empty');
  });

  test('arithmetic on an undefined value says so', () => {
    const error = failure('{{ ctx.total + ctx.zz }}');
    expect(error.code).toBe('TEMPLATE_UNDEFINED');
    expect(error.details).toMatchObject({ offset: 13 });
  });
});

describe('data and methods', () => {
  test('a key that is called like a method is data unless it is called', () => {
    expect(evaluate('{{ ctx.items }}')).toBe('data');
    expect(evaluate('{{ ctx.deep.items() }}')).toEqual([['a', { b: 5 }]]);
    expect(evaluate('{{ ctx.deep.keys }}')).toBeUndefined();
  });

  test.each(['append', 'extend', 'pop', 'update', 'insert', 'remove', 'clear', 'sort', 'reverse', 'setdefault'])(
    '.%s() is refused before anything runs',
    (method) => {
      expect(() => compileTemplate(`{{ ctx.list.${method}(1) }}`)).toThrow(
        expect.objectContaining({ code: 'TEMPLATE_FORBIDDEN' }),
      );
    },
  );

  test.each([
    '{{ now() }}',
    '{{ ctx.list | random }}',
    '{{ utcnow() }}',
    "{% include 'x' %}",
    "{% import 'x' as y %}",
    "{% extends 'x' %}",
    '{% call f() %}{% endcall %}',
    '{% do x %}',
  ])('%s is forbidden', (template) => {
    expect(failure(template).code).toBe('TEMPLATE_FORBIDDEN');
  });

  test('only a namespace can be changed', () => {
    expect(failure('{% set ctx.total = 5 %}').code).toBe('TEMPLATE_FORBIDDEN');
    expect(failure("{% set ctx['total'] = 5 %}").code).toBe('TEMPLATE_FORBIDDEN');
    expect(scope.ctx.total).toBe(3);
  });
});

describe('the place of an error', () => {
  test.each([
    ['line one\n  {{ ctx.total |\n     nofilter }}', 'TEMPLATE_SYNTAX', 3, 6],
    ['a\n{{ ctx.name + 1 }}', 'TEMPLATE_TYPE', 2, 13],
    ['{% if ctx.total %}\n{{ nope }}\n{% endif %}', 'TEMPLATE_UNDEFINED', 2, 4],
    ['{{ 1 }}\n{% for x in ctx.total %}{% endfor %}', 'TEMPLATE_TYPE', 2, 13],
    ['{{ 1 }}\n{% for x in [1] %}', 'TEMPLATE_SYNTAX', 2, 1],
    ['ok\n\n {{ (1 + }}', 'TEMPLATE_SYNTAX', 3, 10],
    ['{{ "a\\"b" ~ nope }}', 'TEMPLATE_UNDEFINED', 1, 13],
    ['{{ 1 }} {{ "unclosed }}', 'TEMPLATE_SYNTAX', 1, 12],
    ['{{ ctx.name | truncate(1) }}', 'TEMPLATE_TYPE', 1, 15],
    ['{{ ctx.list | map("nope") }}', 'TEMPLATE_SYNTAX', 1, 15],
    ['{{ ctx.list | map(ctx.name) }}', 'TEMPLATE_SYNTAX', 1, 15],
  ])('%j', (template, code, line, column) => {
    const error = failure(template);
    expect(error).toMatchObject({ code, details: { line, column } });
    expect(error.message).toContain(`line ${line}, column ${column}`);
  });

  test.each([
    ['{{ x | defualt(1) }}', "did you mean 'default'"],
    ['{{ x is defind }}', "did you mean 'defined'"],
    ['{{ x.lowr() }}', "did you mean 'lower'"],
    ['{{ rnage(3) }}', "did you mean 'range'"],
    ['{{ length(x) }}', 'x | length'.replace('x', 'value')],
    ['{{ x | sort(revers=true) }}', "did you mean 'reverse'"],
    ["{{ x | selectattr('a', 'equalto_', 1) }}", "did you mean 'equalto'"],
    ['{% fro x in y %}', "did you mean 'for'"],
    ['{% if x %}{% endfor %}', 'endif'],
    ['{{ x | default({}).y }}', 'brackets'],
  ])('%s is refused with help: %s', (template, help) => {
    const error = failure(template);
    expect(error.code).toBe('TEMPLATE_SYNTAX');
    expect(error.message).toContain(help);
  });

  test('a message never holds a value', () => {
    for (const template of [
      '{{ secret + 1 }}',
      '{{ secret | abs }}',
      '{{ secret | fromjson }}',
      '{{ secret.x() }}',
      '{{ secret | to_datetime }}',
      '{{ secret | b64decode }}',
      '{% for a, b in secret %}{% endfor %}',
    ]) {
      expect(JSON.stringify(failure(template, { secret: 'hunter2!' }))).not.toContain('hunter2');
      expect(failure(template, { secret: 'hunter2!' }).message).not.toContain('hunter2');
    }
  });
});

describe('text that the lexer of the library would refuse or change', () => {
  test.each([
    ["{{ '\\d+\\.\\w' }}", '\\d+\\.\\w'],
    ["{{ 'it\\'s' ~ \"\\n\" }}", "it's\n"],
    ["{{ '{% generation %}' }}", '{% generation %}'],
    ['{{ größe }}', 5],
    ['{{ 1e3 }}', 1000],
    ['{{ 1_000.5 }}', 1000.5],
    ["{{ '}}' ~ '%}' }}", '}}%}'],
    ["{{ {'a': {'b': {}}} }}", { a: { b: {} } }],
    ['{{ [1, -1, +1, - 1] }}', [1, -1, 1, -1]],
    ['{{ 5 -3 }}', 2],
    ['{{ [5][-1] }}', 5],
  ])('%s', (template, expected) => {
    expect(evaluate(template, { größe: 5 })).toEqual(expected);
  });
});

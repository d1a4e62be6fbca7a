import { describe, expect, test } from 'vitest';
import { compileTemplate } from './compile-template.ts';
import { NeedValues } from './evaluation.ts';
import { ExternalValue, ResultValue } from './external-value.ts';

const stored = new ExternalValue({
  ref: 'runledger:1',
  store: 'artifact',
  totalBytes: 5000,
  fields: { status: 'ok', count: 2 },
  preview: [{ id: 1 }],
});
const whole = { status: 'ok', count: 2, rows: [{ id: 1 }, { id: 2 }] };

function evaluate(template: string, known = false, step: unknown = stored): unknown {
  return compileTemplate(template).evaluate({ step }, known ? { resolve: () => whole } : {});
}

function needs(template: string, step: unknown = stored): readonly string[] | undefined {
  try {
    evaluate(template, false, step);
    return undefined;
  } catch (error) {
    if (error instanceof NeedValues) return error.refs;
    throw error;
  }
}

describe('a value that is stored outside the log', () => {
  test.each([
    ['{{ step._ref }}', 'runledger:1'],
    ['{{ step._store }}', 'artifact'],
    ['{{ step.total_bytes }}', 5000],
    ['{{ step._preview[0].id }}', 1],
    ["{{ step.status == 'ok' }}", true],
    ["{{ step['count'] + 1 }}", 3],
    ['{{ step is defined }}', true],
    ["{{ step | default('x') is defined }}", true],
    ["{{ [step] | map(attribute='status') | list }}", ['ok']],
    ['{% set s = step %}{{ s.status }}', 'ok'],
  ])('%s is answered at once', (template, expected) => {
    expect(evaluate(template)).toEqual(expected);
  });

  test.each([
    '{{ step }}',
    '{{ step.rows }}',
    '{{ step.data }}',
    '{{ step | length }}',
    '{{ step == 1 }}',
    '{{ [step] }}',
    'x{{ step }}',
    '{% for k in step %}{% endfor %}',
    '{% if step %}{% endif %}',
    '{{ step is mapping }}',
    "{{ 'rows' in step }}",
    "{{ step.get('status') }}",
    '{{ step | tojson }}',
    "{{ step | default('x', true) }}",
    '{{ step[0] }}',
    "{{ {'a': step} | tojson }}",
    '{{ 1 if step else 2 }}',
    '{{ step ~ 1 }}',
    '{{ step + 1 }}',
    '{{ dict(step) }}',
    '{{ x is defined and step.zz is defined or step.zz }}',
  ])('%s needs the whole value, and works once it is there', (template) => {
    expect(needs(template)).toEqual(['runledger:1']);
    try {
      evaluate(template, true);
    } catch (error) {
      expect(error).toMatchObject({ code: 'TEMPLATE_TYPE' });
    }
  });

  test('the whole value takes its place', () => {
    expect(evaluate('{{ step }}', true)).toEqual(whole);
    expect(evaluate('{{ step.data.rows[1].id }}', true)).toBe(2);
    expect(evaluate('{{ [step] }}', true)).toEqual([whole]);
    expect(evaluate("{{ step.rows | map(attribute='id') | sum }}", true)).toBe(3);
  });

  test('a mapping of the host that holds one does not leave with it', () => {
    const outcome = { status: 'ok', result: stored, meta: { inner: new ResultValue(5) } };
    const template = compileTemplate('{{ outcome }}');
    expect(() => template.evaluate({ outcome })).toThrow(NeedValues);
    expect(template.evaluate({ outcome }, { resolve: () => whole })).toEqual({
      status: 'ok',
      result: whole,
      meta: { inner: 5 },
    });
  });

  test('a resolver that knows the value as null counts as having it', () => {
    expect(compileTemplate('{{ step }}').evaluate({ step: stored }, { resolve: () => null })).toBeNull();
  });
});

describe('a result with names beside its own', () => {
  const list = new ResultValue([{ a: 1 }, { a: 2 }], { count: 2, failed: 0 });

  test('a list can have names, and is a list for everything else', () => {
    expect(evaluate('{{ step.count }}', false, list)).toBe(2);
    expect(evaluate('{{ step[1].a + step | length }}', false, list)).toBe(4);
    expect(evaluate('{{ step }}', false, list)).toEqual([{ a: 1 }, { a: 2 }]);
    expect(evaluate('{{ step is sequence and step is not mapping }}', false, list)).toBe(true);
    expect(evaluate('{% for x in step %}{{ x.a }}{% endfor %}', false, list)).toBe('12');
  });

  test('.data is the value itself unless it has a key of that name', () => {
    expect(evaluate('{{ step.data[0].a }}', false, list)).toBe(1);
    expect(evaluate('{{ step.data }}', false, new ResultValue({ x: 1 }))).toEqual({ x: 1 });
    expect(evaluate('{{ step.data }}', false, new ResultValue({ data: 5 }))).toBe(5);
    expect(evaluate('{{ step.data }}', false, new ResultValue(7))).toBe(7);
  });

  test('names win over keys, whether the value is at hand or stored', () => {
    expect(evaluate('{{ step.status }}', false, new ResultValue({ status: 'own' }, { status: 'given' }))).toBe('given');
    expect(evaluate('{{ step.status }}', false, new ResultValue(stored, { status: 'given' }))).toBe('given');
    expect(evaluate('{{ step.count }}', false, new ResultValue(stored, { status: 'given' }))).toBe(2);
    expect(needs('{{ step.rows }}', new ResultValue(stored))).toEqual(['runledger:1']);
    expect(evaluate('{{ step.data.rows | length }}', true, new ResultValue(stored))).toBe(2);
  });
});

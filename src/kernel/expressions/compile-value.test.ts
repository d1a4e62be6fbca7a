import { describe, expect, test } from 'vitest';
import { AppError } from '../../contracts/errors.ts';
import { compileValue } from './compile-value.ts';
import { NeedValues } from './evaluation.ts';
import { ExternalValue } from './external-value.ts';

function failure(work: () => unknown): AppError {
  try {
    work();
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
  throw new Error('no error');
}

describe('a value with templates', () => {
  const value = {
    url: 'https://{{ workload.host }}/v1',
    '{{ key }}': 'keys stay as they are',
    body: { page: '{{ ctx.page }}', tags: ['{{ ctx.tag }}', 'fixed', 3, null, true] },
    none: null,
  };

  test('its texts are evaluated, keys and other values are kept', () => {
    const compiled = compileValue(value);
    expect(compiled.isStatic).toBe(false);
    expect(compiled.roots).toEqual(['workload', 'ctx']);
    expect(compiled.evaluate({ workload: { host: 'h' }, ctx: { page: 2, tag: 'x' } })).toEqual({
      url: 'https://h/v1',
      '{{ key }}': 'keys stay as they are',
      body: { page: 2, tags: ['x', 'fixed', 3, null, true] },
      none: null,
    });
  });

  test('a value without templates is given back itself', () => {
    const plain = { a: [1, 'x', { b: null }] };
    const compiled = compileValue(plain);
    expect(compiled.isStatic).toBe(true);
    expect(compiled.evaluate({})).toBe(plain);
  });

  test('undefined is null in a list and absent in a mapping', () => {
    const compiled = compileValue({ a: '{{ ctx.zz }}', b: ['{{ ctx.zz }}'], c: 1 });
    expect(compiled.evaluate({ ctx: {} })).toStrictEqual({ b: [null], c: 1 });
    expect(compileValue('{{ ctx.zz }}').evaluate({ ctx: {} })).toBeUndefined();
  });

  test('errors name the path, at compilation and at evaluation', () => {
    const bad = failure(() => compileValue({ a: [{ b: 'x {{ 1 + }}' }] }));
    expect(bad).toMatchObject({ code: 'TEMPLATE_SYNTAX', details: { path: ['a', 0, 'b'], offset: 9, line: 1 } });
    const late = failure(() => compileValue({ a: [{ b: '{{ nope }}' }] }).evaluate({}));
    expect(late).toMatchObject({ code: 'TEMPLATE_UNDEFINED', details: { path: ['a', 0, 'b'], name: 'nope' } });
  });

  test('values that are not JSON or too deep are refused', () => {
    expect(failure(() => compileValue({ a: new Date(0) })).code).toBe('TEMPLATE_TYPE');
    expect(failure(() => compileValue([() => 1])).details).toMatchObject({ path: [0] });
    let deep: unknown = '{{ 1 }}';
    for (let i = 0; i < 10_000; i++) deep = [deep];
    expect(failure(() => compileValue(deep)).code).toBe('TEMPLATE_LIMIT');
  });

  test('one answer names all stored values that are needed', () => {
    const compiled = compileValue({ a: '{{ one }}', b: ['{{ two | length }}', '{{ three._ref }}'] });
    const scope = {
      one: new ExternalValue({ ref: 'r1' }),
      two: new ExternalValue({ ref: 'r2' }),
      three: new ExternalValue({ ref: 'r3' }),
    };
    try {
      compiled.evaluate(scope);
      expect.unreachable();
    } catch (error) {
      expect(error).toBeInstanceOf(NeedValues);
      expect((error as NeedValues).refs).toEqual(['r1', 'r2']);
    }
    const values: Record<string, unknown> = { r1: { x: 1 }, r2: [1, 2] };
    expect(compiled.evaluate(scope, { resolve: (ref) => values[ref] })).toEqual({ a: { x: 1 }, b: [2, 'r3'] });
  });
});

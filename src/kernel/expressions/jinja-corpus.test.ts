import { describe, expect, test } from 'vitest';
import { AppError } from '../../contracts/errors.ts';
import { compileTemplate } from './compile-template.ts';
import corpus from './fixtures/jinja-corpus.json' with { type: 'json' };

type Case = readonly [template: string, expected: unknown, kind?: 'error' | 'undefined'];

/** Where we differ from Python's Jinja2 on purpose, and what we give. */
const DIFFERENCES: readonly (readonly [template: RegExp, reason: string])[] = [
  [/^\{\{ 0 \/ -7 \}\}$/, 'JSON has no negative zero'],
  [/^\{\{ 2\.5 \*\* 2\.5 \}\}$/, 'the last bit of a power is the host’s'],
  [/^\{\{ (?:a|b|neg|t|n) \| (?:indent|truncate)/, 'text filters take any scalar, as most of Jinja’s do'],
  [/^\{\{ nested \| unique/, 'lists can be compared, so they can be unique'],
  [/^\{\{ m \| attr/, 'attributes are keys: mappings have nothing else'],
  [/^\{\{ m is (?:not )?lower/, 'a mapping has no case'],
  [/^\{\{ m\.zz\.yy\|default/, 'an attribute of undefined is undefined'],
];

function outcome(template: string): unknown {
  try {
    const value = compileTemplate(template).evaluate(corpus.scope);
    return value === undefined ? 'undefined' : { value: JSON.parse(JSON.stringify(value)) };
  } catch (error) {
    if (error instanceof AppError && error.code.startsWith('TEMPLATE_')) return 'error';
    throw error;
  }
}

describe(`what Python gives (${corpus.python})`, () => {
  const cases = corpus.cases as unknown as readonly Case[];

  test('templates give the same value, text or refusal as Jinja2', () => {
    const wrong: unknown[] = [];
    for (const [template, value, kind] of cases) {
      if (DIFFERENCES.some(([pattern]) => pattern.test(template))) continue;
      const got = outcome(template);
      const wanted = kind ?? { value };
      try {
        expect(got).toEqual(wanted);
      } catch {
        wrong.push({ template, wanted, got });
      }
    }
    expect(wrong).toEqual([]);
    expect(cases.length).toBeGreaterThan(5000);
  });

  test('every difference that we claim is one', () => {
    const same = DIFFERENCES.filter(([pattern]) =>
      cases.every(([template, value, kind]) => {
        if (!pattern.test(template)) return true;
        const got = outcome(template);
        return Object.is(JSON.stringify(got), JSON.stringify(kind ?? { value })) && !Object.is(value, -0);
      }),
    );
    expect(same).toEqual([]);
  });
});

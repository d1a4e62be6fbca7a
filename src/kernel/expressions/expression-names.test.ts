import { describe, expect, test } from 'vitest';
import { compileTemplate } from './compile-template.ts';
import { EXPRESSION_NAMES } from './expression-names.ts';

const { filters, tests, methods, functions, refused } = EXPRESSION_NAMES;

/** What every playbook author may rely on. */
const PROMISED = {
  filters:
    'default int float string bool tojson fromjson length lower upper title trim replace join split first last map select ' +
    'reject selectattr rejectattr sort unique sum min max abs round items dictsort batch groupby b64encode b64decode ' +
    'urlencode hash regex_replace to_datetime strftime',
  tests: 'defined undefined none number string mapping sequence in eq ne lt le gt ge odd even divisibleby',
  methods:
    'get items keys values lower upper strip lstrip rstrip split rsplit startswith endswith replace title join format',
  functions: 'range dict namespace',
};

describe('the names that templates know', () => {
  test.each(Object.entries(PROMISED))('all promised %s exist', (kind, names) => {
    const known = EXPRESSION_NAMES[kind as keyof typeof PROMISED].map(({ name }) => name);
    expect(known).toEqual(expect.arrayContaining(names.split(' ')));
  });

  test('each has a summary, and its arguments have different names', () => {
    for (const { name, params, summary } of [...filters, ...tests, ...methods, ...functions]) {
      expect(summary, name).toMatch(/\S.*[.)]$/);
      expect(new Set(params).size, name).toBe(params.length);
    }
  });

  test('what is refused is refused with its reason', () => {
    const cases = [
      ...refused.filters.map(({ name, reason }) => [`{{ x | ${name} }}`, reason] as const),
      ...refused.methods.map(({ name, reason }) => [`{{ x.${name}() }}`, reason] as const),
      ...refused.functions.map(({ name, reason }) => [`{{ ${name}() }}`, reason] as const),
    ];
    for (const [template, reason] of cases) {
      expect(() => compileTemplate(template), template).toThrow(
        expect.objectContaining({ code: 'TEMPLATE_FORBIDDEN', message: expect.stringContaining(reason) }),
      );
    }
  });

  test.each(['constructor', '__proto__', 'toString', 'hasOwnProperty'])(
    '%s is no filter, test, method or function',
    (name) => {
      for (const template of [`{{ x | ${name} }}`, `{{ x is ${name} }}`, `{{ x.${name}() }}`, `{{ ${name}() }}`]) {
        expect(() => compileTemplate(template)).toThrow(expect.objectContaining({ code: 'TEMPLATE_SYNTAX' }));
      }
    },
  );
});

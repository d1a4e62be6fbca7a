import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compileTemplate } from '../kernel/expressions/compile-template.ts';
import { compiled, compileText, playbook, problemsOf, withoutMarks, withTool } from './compile.fixture.ts';

/** Where templates stand; each row puts one there. The step before is `first`, the tasks are `a` and `b`. */
const PLACES: Readonly<Record<string, (template: string) => string>> = {
  'tool field': (t) => step(`tool: [{name: a, kind: noop, result: "${t}"}, {name: b, kind: noop}]`),
  'nested tool field': (t) => step(`tool: [{name: a, kind: noop, result: {x: [{y: "${t}"}]}}, {name: b, kind: noop}]`),
  timeout: (t) => step(`tool: [{name: a, kind: noop, timeout: "${t}"}, {name: b, kind: noop}]`),
  'effect key': (t) => step(`tool: [{name: a, kind: noop, effect: {key: "${t}"}}, {name: b, kind: noop}]`),
  rule: (t) =>
    step(
      `tool: [{name: a, kind: noop, spec: {policy: {rules: [{when: "${t}", then: {do: fail}}]}}}, {name: b, kind: noop}]`,
    ),
  'rule set': (t) =>
    step(
      `tool: [{name: a, kind: noop, spec: {policy: {rules: [{then: {set: {ctx.x: "${t}"}}}]}}}, {name: b, kind: noop}]`,
    ),
  'before hook': (t) =>
    step(
      `tool: [{name: a, kind: noop, spec: {policy: {rules: [], before: [{ctx.x: "${t}"}]}}}, {name: b, kind: noop}]`,
    ),
  'after hook': (t) =>
    step(`tool: [{name: a, kind: noop, spec: {policy: {rules: [], after: [{ctx.x: "${t}"}]}}}, {name: b, kind: noop}]`),
  'task set': (t) => step(`tool: [{name: a, kind: noop, set: {ctx.x: "${t}"}}, {name: b, kind: noop}]`),
  'step set': (t) => step(`tool: [{name: a, kind: noop}, {name: b, kind: noop}], set: {ctx.x: "${t}"}`),
  'step set without a loop': (t) =>
    playbook(
      `- {step: first, next: {arcs: [{step: second}]}}\n- {step: second, tool: [{name: a, kind: noop}, {name: b, kind: noop}], set: {ctx.x: "${t}"}}`,
      'workload: {city: 1}\ntracing: {}\n',
    ),
  'step input': (t) => step(`tool: [{name: a, kind: noop}, {name: b, kind: noop}], input: {x: "${t}"}`),
  arc: (t) => step(`tool: [{name: a, kind: noop}, {name: b, kind: noop}], next: {arcs: [{step: first, when: "${t}"}]}`),
  'arc args': (t) =>
    step(
      `tool: [{name: a, kind: noop}, {name: b, kind: noop}], next: {arcs: [{step: first, when: "{{ ctx.a }}", args: {x: "${t}"}}]}`,
    ),
  admission: (t) =>
    step(
      `tool: [{name: a, kind: noop}, {name: b, kind: noop}], spec: {policy: {admit: {rules: [{when: "${t}", then: {allow: true}}]}}}`,
    ),
  'loop list': (t) => step('tool: [{name: a, kind: noop}, {name: b, kind: noop}]', t),
  'step timeout': (t) =>
    step(`tool: [{name: a, kind: noop}, {name: b, kind: noop}], spec: {policy: {lifecycle: {timeout_s: "${t}"}}}`),
  keychain: (t) =>
    withTool('{kind: noop}', `workload: {city: 1}\ntracing: {}\nkeychain: [{name: k, kind: bearer, token: "${t}"}]\n`),
};

function step(fields: string, list = '{{ workload.city }}'): string {
  return playbook(
    `- {step: first, next: {arcs: [{step: second}]}}\n- {step: second, loop: {in: "${list}", iterator: each}, ${fields}}\n`,
    'workload: {city: 1}\ntracing: {}\n',
  );
}

function expectMarked(marked: string): void {
  const { text, expected } = withoutMarks(marked);
  expect(problemsOf(text)).toEqual(expected);
}

const ALWAYS = ['workload', 'city', 'tracing', 'ctx', 'args', 'execution_id', 'job'];
const SEES: Readonly<Record<string, readonly string[]>> = {
  'tool field': ['keychain', 'iter', 'each', 'a', 'b', 'first', '_prev', '_task', '_attempt'],
  'nested tool field': ['keychain', 'iter', 'each', 'a', 'b', 'first', '_prev', '_task', '_attempt'],
  timeout: ['iter', 'each', 'a', 'b', 'first', '_prev', '_task', '_attempt'],
  'effect key': ['iter', 'each', 'a', 'b', 'first', '_prev', '_task', '_attempt'],
  rule: ['outcome', 'output', 'iter', 'each', 'a', 'b', 'first', '_prev', '_task', '_attempt'],
  'rule set': ['outcome', 'output', 'iter', 'each', 'a', 'b', 'first', '_prev', '_task', '_attempt'],
  'before hook': ['iter', 'each', 'a', 'b', 'first', '_prev', '_task', '_attempt'],
  'after hook': ['outcome', 'output', 'iter', 'each', 'a', 'b', 'first', '_prev', '_task', '_attempt'],
  'task set': ['outcome', 'output', 'iter', 'each', 'a', 'b', 'first', '_prev', '_task', '_attempt'],
  'step set': ['outcome', 'output', 'event', 'first'],
  'step set without a loop': ['outcome', 'output', 'event', 'iter', 'a', 'b', 'first', '_prev'],
  'step input': ['iter', 'each', 'first'],
  arc: ['outcome', 'output', 'event', 'first'],
  'arc args': ['outcome', 'output', 'event', 'first'],
  admission: ['event', 'first'],
  'loop list': ['first'],
  'step timeout': ['first'],
  keychain: ['keychain'],
};
const ALL = [...new Set([...ALWAYS, ...Object.values(SEES).flat(), 'nothing'])];

describe('what a template can see', () => {
  test.each(Object.keys(PLACES))('in a %s is this and nothing else', (place) => {
    const visible = ALL.filter((name) => problemsOf(PLACES[place]!(`{{ ${name}.x }}`)).length === 0);
    expect(visible.sort()).toEqual([...ALWAYS, ...SEES[place]!].sort());
  });

  test('a name that exists nowhere is reported at its place, with the nearest one', () => {
    const marked = step('tool: {kind: noop, result: "x {{ §UNKNOWN_ROOT_NAME§citty.name }}"}');
    expectMarked(marked);
    const result = compileText(withoutMarks(marked).text);
    expect(result.ok ? '' : result.problems[0]!.message).toBe("a tool field sees no `citty`; did you mean 'city'?");
  });

  test('names that the template makes, and names that it asks for, are no mistakes', () => {
    expect(
      problemsOf(step('tool: {kind: noop, result: "{% for x in city %}{{ x + loop.index }}{% endfor %}"}')),
    ).toEqual([]);
    expect(
      problemsOf(step('tool: {kind: noop, result: "{{ request_id is defined }}{{ other | default(1) }}"}')),
    ).toEqual([]);
  });

  test('a bare name that a task sets is seen by its pipeline only', () => {
    const text = playbook(`
- step: a
  tool:
    - {name: one, kind: noop, set: {page: "{{ outcome.data }}"}}
    - {name: two, kind: noop, result: "{{ page }}"}
  next: {arcs: [{step: b}]}
- {step: b, tool: {kind: noop, result: "{{ §UNKNOWN_ROOT_NAME§page }}"}}
`);
    expectMarked(text);
  });

  test('a workbook task sees what its callers see', () => {
    const workbook =
      'workbook: [{name: w, tool: {kind: noop, result: "{{ city }}{{ one }}{{ page }}{{ keychain.k }}{{ §UNKNOWN_ROOT_NAME§nope }}"}}]\n';
    const text = playbook(
      '- {step: a, loop: {in: [1], iterator: city}, tool: [{name: one, kind: noop, set: {page: 1}}, {kind: workbook, name: w}]}',
      workbook,
    );
    expectMarked(text);
  });
});

describe('templates', () => {
  test.each([
    ['{{ 1 + }}', 'TEMPLATE_SYNTAX'],
    ['{{ ctx.a', 'TEMPLATE_SYNTAX'],
    ['{% if ctx.a %}', 'TEMPLATE_SYNTAX'],
    ['{% include ctx.a %}', 'TEMPLATE_SYNTAX'],
    ['{{ ctx.a | nofilter }}', 'TEMPLATE_SYNTAX'],
  ])('%s does not parse', (template, code) => {
    expect(problemsOf(withTool(`{kind: noop, result: "${template}"}`)).map((found) => found.split(' ')[0])).toEqual([
      code,
    ]);
  });

  test.each([
    ['a block', 'result: |\n      one\n      two {{ 1 + §TEMPLATE_SYNTAX§}}\n'],
    ['a folded block', 'result: >\n      one\n      two {{ 1 + §TEMPLATE_SYNTAX§}}\n'],
    ['single quotes', "result: 'it''s\n      two {{ 1 + §TEMPLATE_SYNTAX§}}'\n"],
    ['a plain text', 'result: one {{ 1 + §TEMPLATE_SYNTAX§}}\n'],
  ])('a mistake in %s is reported on its own line', (_style, field) => {
    expectMarked(playbook(`- step: a\n  tool:\n    kind: noop\n    ${field}`));
  });

  test('the keychain anywhere but in a tool is a problem of its own, data included', () => {
    const outside = 'KEYCHAIN_OUT_OF_PLACE';
    const codes = (text: string): string[] => problemsOf(text).map((found) => found.split(' ')[0]!);
    expect(codes(PLACES['arc']!('{{ keychain.k.token }}'))).toEqual([outside]);
    expect(codes(PLACES['rule set']!('{{ keychain.k.token }}'))).toEqual([outside]);
    expect(codes(withTool('{kind: noop}', 'workload: {x: "{{ keychain.k }}"}\n'))).toEqual([outside]);
    expect(codes(withTool('{kind: noop, output: {store: {k: "{{ keychain.k }}"}}}'))).toEqual([outside]);
    expect(codes(withTool('{kind: noop}').replace('version: "1"', 'note: "{{ keychain.k }}"'))).toEqual([outside]);
  });

  test('braces in data are left alone, braces in code come out of the runner as they were', () => {
    const text = withTool('{kind: noop}', 'workload: {t: "{{ not a template"}\n');
    expect(compiled(text).plan.workload).toEqual({ t: '{{ not a template' });
    expect(compiled(withTool('{kind: python, code: "x = {}"}')).plan.steps[0]!.tasks[0]!.with).toEqual({
      code: 'x = {}',
    });
    expect(problemsOf(withTool('{kind: python, code: "{% endraw %}"}'))).toEqual(['TEMPLATE_SYNTAX 5:44']);
    const piece = fc.constantFrom(
      '{{',
      '}}',
      '{%',
      '%}',
      '{#',
      '#}',
      '{',
      '}',
      '-',
      ' ',
      '\n',
      '\r',
      '"',
      "'",
      '\\',
      'raw',
      'x',
      '|',
      'é',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        const code = pieces.join('');
        const result = compileText(withTool(`{kind: python, code: ${JSON.stringify(`#${code}`)}}`));
        const rendered = result.ok
          ? compileTemplate(result.plan.steps[0]!.tasks[0]!.with['code'] as string).evaluate({})
          : '';
        expect(rendered).toBe(`#${code}`);
      }),
      { seed: 5, numRuns: 300 },
    );
  });
});

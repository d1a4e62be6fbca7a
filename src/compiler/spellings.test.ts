import { describe, expect, test } from 'vitest';
import { compiled, folder, playbook, withTool } from './compile.fixture.ts';

/** Two ways to write the same thing. */
const PAIRS: readonly (readonly [what: string, newer: string, older: string])[] = [
  ['one task or a list of one', withTool('[{kind: noop}]'), withTool('{kind: noop}')],
  ['a generated name or the same name written', withTool('[{name: task_0, kind: noop}]'), withTool('{kind: noop}')],
  ['name or label', withTool('[{name: a, kind: noop, result: 1}]'), withTool('[{a: {kind: noop, result: 1}}]')],
  [
    'url or endpoint',
    withTool('{kind: http, url: "https://x.test"}'),
    withTool('{kind: http, endpoint: "https://x.test"}'),
  ],
  ['timeout or timeout_seconds', withTool('{kind: noop, timeout: 5}'), withTool('{kind: noop, timeout_seconds: 5}')],
  [
    'timeout on the task or under spec',
    withTool('{kind: noop, spec: {timeout: 5}}'),
    withTool('{kind: noop, timeout: 5}'),
  ],
  ['seconds or a duration', withTool('{kind: noop, timeout: 90}'), withTool('{kind: noop, timeout: 1.5m}')],
  [
    'http fields on the tool or under spec',
    withTool('{kind: http, url: "https://x.test", method: POST, spec: {timeout: 3}}'),
    withTool('{kind: http, spec: {endpoint: "https://x.test", method: POST, timeout_seconds: 3}}'),
  ],
  [
    'auth or credential',
    withTool('{kind: postgres, auth: pg, command: SELECT 1}'),
    withTool('{kind: postgres, credential: pg, command: SELECT 1}'),
  ],
  [
    'command or query',
    withTool('{kind: postgres, auth: pg, command: SELECT 1}'),
    withTool('{kind: postgres, auth: pg, query: SELECT 1}'),
  ],
  [
    'command or commands',
    withTool('{kind: duckdb, command: [SELECT 1, SELECT 2]}'),
    withTool('{kind: duckdb, commands: [SELECT 1, SELECT 2]}'),
  ],
  [
    'input or args of a program',
    withTool('{kind: python, code: x = 1, input: {a: 1}}'),
    withTool('{kind: python, code: x = 1, args: {a: 1}}'),
  ],
  [
    'input or payload of a child run',
    withTool('{kind: playbook, path: "{{ ctx.p }}", input: {a: 1}}'),
    withTool('{kind: playbook, path: "{{ ctx.p }}", payload: {a: 1}}'),
  ],
  [
    'spec.result or output of a task',
    withTool('{kind: noop, spec: {result: {select: [a]}}}'),
    withTool('{kind: noop, output: {output_select: [a]}}'),
  ],
  [
    'set or set_ctx and set_iter',
    withTool('{kind: noop, spec: {policy: {rules: [{then: {do: continue, set: {ctx.a: 1, iter.b: 2}}}]}}}'),
    withTool('{kind: noop, spec: {policy: {rules: [{then: {do: continue, set_ctx: {a: 1}, set_iter: {b: 2}}}]}}}'),
  ],
  [
    'a flat or a nested set',
    withTool('{kind: noop, set: {ctx.a: 1, iter.b: 2}}'),
    withTool('{kind: noop, set: {ctx: {a: 1}, iter: {b: 2}}}'),
  ],
  [
    'else with then, else without, or no condition',
    withTool('{kind: noop, spec: {policy: {rules: [{then: {do: break}}]}}}'),
    withTool('{kind: noop, spec: {policy: {rules: [{else: {do: break}}]}}}'),
  ],
  [
    'do: continue or only a set',
    withTool('{kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set: {ctx.a: 1}}}}]}}}'),
    withTool('{kind: noop, spec: {policy: {mode: exclusive, rules: [{else: {then: {set: {ctx.a: 1}}}}]}}}'),
  ],
  [
    'a condition in braces or bare',
    withTool('{kind: noop, spec: {policy: {rules: [{when: "{{ outcome.status == \'error\' }}", then: {do: fail}}]}}}'),
    withTool('{kind: noop, spec: {policy: {rules: [{when: "outcome.status == \'error\'", then: {do: fail}}]}}}'),
  ],
  [
    'a retry rule or the older retry',
    withTool(
      '{kind: noop, spec: {policy: {rules: [{when: "{{ outcome.status == \'error\' }}", then: {do: retry, attempts: 3, backoff: linear, delay: 2}}, {when: "{{ outcome.status == \'error\' }}", then: {do: fail}}]}}}',
    ),
    withTool('{kind: noop, retry: {max_attempts: 3, backoff: linear, backoff_seconds: 2}}'),
  ],
  [
    'jump to a name or to previous',
    withTool('[{name: a, kind: noop}, {name: b, kind: noop, spec: {policy: {rules: [{then: {do: jump, to: a}}]}}}]'),
    withTool(
      '[{name: a, kind: noop}, {name: b, kind: noop, spec: {policy: {rules: [{then: {do: jump, to: previous}}]}}}]',
    ),
  ],
  [
    'hooks as mappings or under set',
    withTool('{kind: noop, spec: {policy: {rules: [], before: [{ctx.a: 1}]}}}'),
    withTool('{kind: noop, spec: {policy: {rules: [], before: [{set_ctx: {a: 1}}]}}}'),
  ],
  [
    'loop.spec.mode or loop.mode',
    playbook('- {step: a, loop: {in: [1], iterator: i, spec: {mode: parallel, max_in_flight: 2}}, tool: {kind: noop}}'),
    playbook('- {step: a, loop: {in: [1], iterator: i, mode: parallel, max_in_flight: 2}, tool: {kind: noop}}'),
  ],
  [
    'the default mode and iterator, written or not',
    playbook(
      '- {step: a, loop: {in: [1], iterator: item, spec: {mode: sequential}}, tool: {kind: noop}, next: {spec: {mode: exclusive}, arcs: []}}',
    ),
    playbook('- {step: a, loop: {in: [1]}, tool: {kind: noop}, next: {}}'),
  ],
  [
    'next.spec.mode or spec.next_mode',
    playbook('- {step: a, next: {spec: {mode: inclusive}, arcs: [{step: b}]}}\n- {step: b, tool: {kind: noop}}'),
    playbook('- {step: a, spec: {next_mode: inclusive}, next: {arcs: [{step: b}]}}\n- {step: b, tool: {kind: noop}}'),
  ],
  [
    'an arc without a condition or one that is true',
    playbook('- {step: a, next: {arcs: [{step: b}]}}\n- {step: b, tool: {kind: noop}}'),
    playbook('- {step: a, next: {arcs: [{step: b, when: true, args: null}]}}\n- {step: b, tool: {kind: noop}}'),
  ],
  [
    'admission with else and then, or without',
    playbook(
      '- {step: a, tool: {kind: noop}, spec: {policy: {admit: {rules: [{when: "{{ ctx.go }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}}',
    ),
    playbook(
      '- {step: a, tool: {kind: noop}, spec: {policy: {admit: {mode: exclusive, rules: [{when: ctx.go, then: {allow: true}}, {else: {allow: false}}]}}}}',
    ),
  ],
  [
    'lifecycle.timeout_s or spec.timeout of a step',
    playbook('- {step: a, tool: {kind: noop}, spec: {policy: {lifecycle: {timeout_s: 600}}}}'),
    playbook('- {step: a, tool: {kind: noop}, spec: {timeout: 10m}}'),
  ],
  [
    'output_select or select of a step',
    playbook('- {step: a, tool: {kind: noop}, output: {output_select: [x]}}'),
    playbook('- {step: a, tool: {kind: noop}, output: {select: [x]}}'),
  ],
  [
    'capabilities or features',
    withTool('{kind: noop}', 'executor: {requires: {capabilities: [PAUSE, CANCEL]}}\n'),
    withTool('{kind: noop}', 'executor: {requires: {features: [CANCEL, PAUSE]}}\n'),
  ],
  [
    'a workbook task by name or by task',
    withTool('{double: {kind: workbook, name: double}}', 'workbook: [{name: double, tool: {kind: noop}}]\n'),
    withTool('{kind: workbook, name: double, task: double}', 'workbook: [{name: double, tool: {kind: noop}}]\n'),
  ],
  [
    'secrets or secret_manager',
    withTool('{kind: noop}', 'keychain: [{name: k, kind: secrets, provider: gcp, auth: g, map: {a: path}}]\n'),
    withTool('{kind: noop}', 'keychain: [{name: k, kind: secret_manager, provider: gcp, auth: g, map: {a: path}}]\n'),
  ],
  [
    'one version of the language or the other',
    withTool('{kind: noop}'),
    withTool('{kind: noop}').replace('noetl.io/v2', 'runledger/v1'),
  ],
  [
    'an empty section or none',
    withTool('{kind: noop}'),
    withTool('{kind: noop, spec: , set: {}}', 'workload:\nkeychain: []\nexecutor: {}\n'),
  ],
];

describe('NE-D1 both spellings give the same bytes', () => {
  test.each(PAIRS)('%s', (_what, newer, older) => {
    expect(compiled(older).json).toBe(compiled(newer).json);
  });
});

test('planVersion is the version as it was written, else a hash of the rest of the plan', () => {
  const version = (text: string): string =>
    compiled(withTool('{kind: noop}').replace('version: "1"', text)).planRef.planVersion;
  expect(version('version: 3.10')).toBe('3.10');
  expect(version('version: "v2"')).toBe('v2');
  const derived = version('author: me');
  expect(derived).toMatch(/^[0-9a-f]{12}$/);
  expect(version('author: me')).toBe(derived);
  expect(version('author: you')).not.toBe(derived);
});

test('planId is the path, else the name; other metadata is kept as data', () => {
  const text = withTool('{kind: noop}').replace(
    '{name: test, version: "1"}',
    '{name: n, path: a/b, team: {x: [1]}, labels: {k: v}}',
  );
  const { metadata } = compiled(text).plan;
  expect(metadata).toMatchObject({
    planId: 'a/b',
    name: 'n',
    path: 'a/b',
    extra: { team: { x: [1] }, labels: { k: 'v' } },
  });
  expect(compiled(withTool('{kind: noop}')).plan.metadata.planId).toBe('test');
});

test('the entry is what the executor says, else start, else the first step', () => {
  const steps = '- {step: first, next: {arcs: [{step: start}]}}\n- {step: start, next: {arcs: [{step: first}]}}\n';
  expect(compiled(playbook(steps)).plan.entryStep).toBe('start');
  expect(compiled(playbook(steps, 'executor: {spec: {entry_step: first}}\n')).plan.entryStep).toBe('first');
  expect(compiled(playbook('- {step: one, tool: {kind: noop}}')).plan.entryStep).toBe('one');
});

test('a step lists the joins that it can reach, and no others', () => {
  const { plan } = compiled(
    playbook(`
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
- {step: a, next: {arcs: [{step: both}]}}
- {step: b, next: {arcs: [{step: both}, {step: side}]}}
- {step: both, join: all, next: {arcs: [{step: a, when: "{{ ctx.again }}"}, {step: last}]}}
- {step: side, tool: {kind: noop}}
- {step: last, join: all, tool: {kind: noop}}
`),
  );
  expect(Object.fromEntries(plan.steps.map((step) => [step.stepId, step.reaches]))).toEqual({
    start: ['both', 'last'],
    a: ['both', 'last'],
    b: ['both', 'last'],
    both: ['last'],
    side: [],
    last: [],
  });
});

test('WE-3.2b what a plan requires is declared, or follows from its steps', () => {
  const { plan } = compiled(
    playbook(
      `
- {step: a, join: all, loop: {in: [1], mode: parallel}, tool: {kind: noop}, next: {arcs: [{step: b}]}}
- {step: b, tool: {kind: playbook, path: "{{ ctx.p }}"}, spec: {policy: {failure: {retry: {attempts: 2}}}}}
`,
      'executor: {requires: {capabilities: [PAUSE]}}\n',
    ).replace('version: "1"', 'requiresCapabilities: [CANCEL], fallbackBehavior: emulate, targetAdapter: temporal'),
  );
  expect(plan.metadata).toMatchObject({
    requiresCapabilities: ['CANCEL', 'PAUSE', 'child-runs', 'fan-in', 'fan-out', 'timers'],
    fallbackBehavior: 'emulate',
    targetAdapter: 'temporal',
  });
});

test('tools of the user are taken with the fields that they name, or with any', () => {
  const text = withTool('{kind: mine, a: 1, b: "{{ ctx.x }}"}');
  expect(compiled(text, { tools: { mine: {} } }).plan.steps[0]!.tasks[0]!.with).toEqual({ a: 1, b: '{{ ctx.x }}' });
  expect(() => compiled(text, { tools: { mine: { fields: ['a'] } } })).toThrow('INVALID_STEP_SCHEMA');
});

test('positions lead from a part of the plan to its line in the playbook', () => {
  const child = playbook('- step: c\n  tool: {kind: noop, result: "{{ ctx.x }}"}\n');
  const { positions, children } = compiled(withTool('{kind: playbook, path: child}'), { resolve: folder({ child }) });
  expect(positions['/steps/0/tasks/0']).toEqual({ file: 'test.yaml', line: 5, column: 23 });
  expect([...children.values()][0]!.positions['/steps/0/tasks/0/with/result']).toEqual({
    file: 'child',
    line: 6,
    column: 30,
  });
});

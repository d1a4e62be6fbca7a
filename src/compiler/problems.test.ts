import { describe, expect, test } from 'vitest';
import { compileText, folder, playbook, problemsOf, withoutMarks, withTool } from './compile.fixture.ts';
import { formatProblems, PROBLEMS } from './problems.ts';

/** Texts carry marks, see `withoutMarks`. */
type Row = readonly [what: string, text: string];

const rules = (list: string): string => withTool(`{kind: noop, spec: {policy: {rules: ${list}}}}`);
const workload = (value: string): string => withTool('{kind: noop}', `workload: ${value}\n`);

const FIELDS: readonly Row[] = [
  ['an unknown root key', `${withTool('{kind: noop}')}§INVALID_STEP_SCHEMA§extra: 1\n`],
  ['an unknown step field', playbook('- {step: a, §INVALID_STEP_SCHEMA§tol: {kind: noop}, next: {}}')],
  ['an unknown tool field', withTool('{kind: http, url: u, §INVALID_STEP_SCHEMA§metod: GET}')],
  ['an unknown spec field', withTool('{kind: noop, spec: {§INVALID_STEP_SCHEMA§tiemout: 3}}')],
  ['an unknown rule field', rules('[{§INVALID_STEP_SCHEMA§whem: 1, then: {do: fail}}]')],
  ['an unknown action', rules('[{then: {do: §INVALID_STEP_SCHEMA§retri}}]')],
  ['a field of another action', rules('[{then: {do: fail, §INVALID_STEP_SCHEMA§attempts: 3}}]')],
  ['an unknown arc field', playbook('- {step: a, next: {arcs: [{step: a, §INVALID_STEP_SCHEMA§wehn: x}]}}')],
  ['an unknown word', playbook('- {step: a, next: {spec: {mode: §INVALID_STEP_SCHEMA§inclusiv}, arcs: []}}')],
  ['a text for a mapping', playbook('- {step: a, spec: §INVALID_STEP_SCHEMA§fast, next: {}}')],
  ['a list for a text', playbook('- {step: a, desc: §INVALID_STEP_SCHEMA§[x], next: {}}')],
  ['a number for a flag', withTool('{kind: noop}', 'executor: {spec: {no_next_is_error: §INVALID_STEP_SCHEMA§1}}\n')],
  ['a text for a number', rules('[{then: {do: retry, attempts: §INVALID_STEP_SCHEMA§many}}]')],
  ['no tries at all', rules('[{then: {do: retry, attempts: §INVALID_STEP_SCHEMA§0}}]')],
  ['an empty condition', rules('[{when: §INVALID_STEP_SCHEMA§"", then: {do: fail}}]')],
  ['an empty rule', rules('[§INVALID_STEP_SCHEMA§null]')],
  ['a tool without a kind', withTool('§INVALID_STEP_SCHEMA§{url: x}')],
  ['a tool without what it needs', withTool('§INVALID_STEP_SCHEMA§{kind: http}')],
  ['a step without a name', playbook('- §INVALID_STEP_SCHEMA§{tool: {kind: noop}}')],
  ['a step with nothing', playbook('- §INVALID_STEP_SCHEMA§{step: a}')],
  ['a loop with nothing', playbook('- {step: a, §INVALID_STEP_SCHEMA§loop: {in: [1]}, next: {}}')],
  ['no steps', `§INVALID_STEP_SCHEMA§${playbook(' []')}`],
  ['no workflow', '§INVALID_STEP_SCHEMA§apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\n'],
  ['no name', withTool('{kind: noop}').replace('{name: test, ', '§INVALID_STEP_SCHEMA§{')],
  ['another kind of document', withTool('{kind: noop}').replace('Playbook', '§INVALID_STEP_SCHEMA§Deployment')],
  ['another language', withTool('{kind: noop}').replace('noetl.io/v2', '§INVALID_STEP_SCHEMA§v3')],
  [
    'what cannot be set',
    withTool('{kind: noop, set: {§INVALID_STEP_SCHEMA§workload.x: 1, §INVALID_STEP_SCHEMA§output: 2}}'),
  ],
  ['a bare name that nobody reads', playbook('- {step: a, tool: {kind: noop}, set: {§INVALID_STEP_SCHEMA§x: 1}}')],
  [
    'arguments that cannot be merged',
    playbook('- {step: a, next: {arcs: [{step: a, args: §INVALID_STEP_SCHEMA§[1]}]}}'),
  ],
  [
    'a keychain entry without its reference',
    withTool('{kind: noop}', 'keychain: [§INVALID_STEP_SCHEMA§{name: k, kind: credential}]\n'),
  ],
  [
    'an unknown kind of keychain entry',
    withTool('{kind: noop}', 'keychain: [{name: k, kind: §INVALID_STEP_SCHEMA§magic}]\n'),
  ],
  [
    'a workbook task that runs another',
    withTool('{kind: noop}', 'workbook: [{name: a, tool: §INVALID_STEP_SCHEMA§{kind: workbook, name: a}}]\n'),
  ],
];

const NAMES: readonly Row[] = [
  ['two steps of one name', playbook('- {step: a, next: {}}\n- {step: §DUPLICATE_NAME§a, next: {}}')],
  ['two tasks of one name', withTool('[{name: a, kind: noop}, {a: §DUPLICATE_NAME§{kind: noop}}]')],
  ['a generated name that is taken', withTool('[{name: task_1, kind: noop}, §DUPLICATE_NAME§{kind: noop}]')],
  [
    'two keychain entries',
    withTool(
      '{kind: noop}',
      'keychain: [{name: k, kind: credential, credential: c}, {name: §DUPLICATE_NAME§k, kind: credential, credential: c}]\n',
    ),
  ],
  [
    'two workbook tasks',
    withTool(
      '{kind: noop}',
      'workbook: [{name: a, tool: {kind: noop}}, {name: §DUPLICATE_NAME§a, tool: {kind: noop}}]\n',
    ),
  ],
  ['a reserved character', playbook('- {step: §RESERVED_NAME§"a/b", next: {}}')],
  ['a reserved character in a task', withTool('[{name: §RESERVED_NAME§"a|b", kind: noop}]')],
  ['the name of the run', playbook('- {step: §RESERVED_NAME§RUN, next: {}}')],
  ['the name of signals', playbook('- {step: §RESERVED_NAME§signal, next: {}}')],
  ['a word of templates', playbook('- {step: §RESERVED_NAME§ctx, next: {}}')],
  ['a jump target as a name', withTool('[{name: §RESERVED_NAME§previous, kind: noop}]')],
  ['a character that cannot be seen', playbook('- {step: §RESERVED_NAME§"a\\u200bb", next: {}}')],
  ['a delimiter of keys in the name', withTool('{kind: noop}').replace('name: test', 'name: §RESERVED_NAME§a|b')],
  [
    'an iterator that templates cannot read',
    playbook('- {step: a, loop: {in: [1], iterator: §RESERVED_NAME§a-b}, tool: {kind: noop}}'),
  ],
  [
    'an iterator that is taken',
    playbook('- {step: a, loop: {in: [1], iterator: §RESERVED_NAME§index}, tool: {kind: noop}}'),
  ],
  ['an unknown tool', withTool('{kind: §UNKNOWN_TOOL§htp}')],
  [
    'an unknown tool that is required',
    withTool('{kind: noop}', 'executor: {requires: {tools: §UNKNOWN_TOOL§[htp]}}\n'),
  ],
  [
    'an unknown workbook task',
    withTool(
      '{kind: workbook, name: §WORKBOOK_TASK_NOT_FOUND§dubble}',
      'workbook: [{name: double, tool: {kind: noop}}]\n',
    ),
  ],
];

const ROUTES: readonly Row[] = [
  ['an arc to nowhere', playbook('- {step: a, next: {arcs: [{step: §ARC_TO_NOWHERE§b}]}}')],
  ['an entry that does not exist', withTool('{kind: noop}', 'executor: {spec: {entry_step: §ARC_TO_NOWHERE§x}}\n')],
  ['a final step that does not exist', withTool('{kind: noop}', 'executor: {spec: {final_step: §ARC_TO_NOWHERE§x}}\n')],
  ['a jump to nowhere', rules('[{then: {do: jump, to: §JUMP_TO_NOWHERE§x}}]')],
  ['a jump before the first', rules('[{then: {do: jump, to: §JUMP_TO_NOWHERE§previous}}]')],
  ['a jump without a target', rules('[{then: §INVALID_STEP_SCHEMA§{do: jump}}]')],
  [
    'an else that is not the last',
    rules('[{else: {do: fail}}, §UNREACHABLE_RULE§{when: "{{ ctx.a }}", then: {do: break}}]'),
  ],
  [
    'a step that nothing leads to',
    playbook('- {step: start, next: {}}\n- §UNREACHABLE_STEP§{step: b, tool: {kind: noop}}'),
  ],
  ['a loop without a list', playbook('- {step: a, loop: §LOOP_WITHOUT_LIST§{iterator: i}, tool: {kind: noop}}')],
  ['a loop over a text', playbook('- {step: a, loop: {in: §LOOP_WITHOUT_LIST§cities}, tool: {kind: noop}}')],
  ['a loop over a number', playbook('- {step: a, loop: {in: §LOOP_WITHOUT_LIST§5}, tool: {kind: noop}}')],
  [
    'a cursor loop without a cursor',
    playbook('- {step: a, loop: §LOOP_WITHOUT_LIST§{spec: {mode: cursor}}, tool: {kind: noop}}'),
  ],
];

const CONFLICTS: readonly Row[] = [
  ['two spellings on one tool', withTool('{kind: http, url: a, §CONFLICT§endpoint: b}')],
  ['two time-outs', withTool('{kind: noop, timeout: 1, spec: {timeout: §CONFLICT§1}}')],
  [
    'two modes of a loop',
    playbook('- {step: a, loop: {in: [1], §CONFLICT§mode: parallel, spec: {mode: parallel}}, tool: {kind: noop}}'),
  ],
  [
    'two modes of routing',
    playbook('- {step: a, spec: {§CONFLICT§next_mode: inclusive}, next: {spec: {mode: inclusive}, arcs: []}}'),
  ],
  ['one assignment twice', withTool('{kind: noop, set: {ctx.a: 1}, set_ctx: {§CONFLICT§a: 2}}')],
  ['else and when', rules('[{§CONFLICT§when: "{{ ctx.a }}", else: {do: fail}}]')],
  [
    'a list and a cursor',
    playbook(
      '- {step: a, loop: {in: §CONFLICT§[1], cursor: {kind: postgres, claim: x}, mode: cursor}, tool: {kind: noop}}',
    ),
  ],
];

const OLD: readonly Row[] = [
  ['root vars', `${withTool('{kind: noop}')}§PRE_V10§vars: {}\n`],
  ['the first API version', withTool('{kind: noop}').replace('noetl.io/v2', '§PRE_V10§noetl.io/v1')],
  ...['when', 'case', 'eval', 'expr', 'sink', 'retry', 'type', 'vars'].map(
    (field): Row => [`step ${field}`, playbook(`- {step: a, §PRE_V10§${field}: x, tool: {kind: noop}}`)],
  ),
  ['a next list', playbook('- {step: a, next: §PRE_V10§[{step: a}]}')],
  ['a next name', playbook('- {step: a, next: §PRE_V10§a}')],
  ['tool eval', withTool('{kind: noop, §PRE_V10§eval: []}')],
  ['rule expr', rules('[{§PRE_V10§expr: x, then: {do: fail}}]')],
  ['loop collection', playbook('- {step: a, loop: {in: [1], §PRE_V10§collection: x}, tool: {kind: noop}}')],
  ['a retry that is no mapping', withTool('{kind: noop, retry: §PRE_V10§[1]}')],
];

const YAML: readonly Row[] = [
  ['no YAML', 'a: §YAML_SYNTAX§['],
  ['nothing', '§YAML_SYNTAX§# only a comment\n'],
  ['a tab', 'a:\n§YAML_SYNTAX§\tb: 1\n'],
  ['a template without quotes', playbook('- step: a\n  tool:\n    kind: http\n    url: §YAML_SYNTAX§{{ x }}/y\n')],
  [
    'a template that YAML reads as a mapping',
    playbook('- step: a\n  tool:\n    kind: http\n    url: §YAML_SYNTAX§{{ x }}\n'),
  ],
  ['a key twice', workload('{a: 1, §YAML_DUPLICATE_KEY§a: 2}')],
  ['a key that is a number', workload('{§YAML_KEY§1: a}')],
  ['a key that is a list', workload('{§YAML_KEY§[1]: a}')],
  ['yes', workload('{a: §YAML_AMBIGUOUS§yes}')],
  ['on as a key', workload('{§YAML_AMBIGUOUS§on: 1}')],
  ['Norway', workload('{country: §YAML_AMBIGUOUS§NO}')],
  ['a leading zero', workload('{zip: §YAML_AMBIGUOUS§01234}')],
  ['an octal number', workload('{mode: §YAML_AMBIGUOUS§0o755}')],
  ['a time', workload('{at: §YAML_AMBIGUOUS§12:30}')],
  ['digits in groups', workload('{n: §YAML_AMBIGUOUS§1_000}')],
  ['a number that loses digits', workload('{id: §YAML_AMBIGUOUS§12345678901234567890}')],
  ['infinity', workload('{n: §YAML_AMBIGUOUS§.inf}')],
  ['a tag', workload('{n: !!binary §YAML_UNSUPPORTED§aGk=}')],
  ['a tag of another language', workload('{n: !python/object §YAML_UNSUPPORTED§x}')],
  ['another version of YAML', `§YAML_UNSUPPORTED§%YAML 1.1\n---\n${withTool('{kind: noop}')}`],
  ['two documents', `${withTool('{kind: noop}')}§YAML_UNSUPPORTED§---\n${withTool('{kind: noop}')}`],
  ['a NUL', 'a: §YAML_UNSUPPORTED§\u0000'],
  ['an escaped NUL', workload('{n: §YAML_UNSUPPORTED§"a\\0"}')],
  ['half a character', workload('{n: §YAML_UNSUPPORTED§"\\ud800"}')],
  ['an alias without an anchor', workload('{a: §YAML_SYNTAX§*b}')],
  ['a value inside itself', workload('&w {a: §YAML_SYNTAX§*w}')],
  ['a merge of no mapping', workload('{§YAML_SYNTAX§<<: 1}')],
  ['a key of prototypes', workload('{§RESERVED_NAME§__proto__: {a: 1}}')],
];

const WARNINGS: readonly Row[] = [
  [
    'a step that only leads back to itself',
    playbook('- §ENDLESS_CYCLE§{step: a, tool: {kind: noop}, next: {arcs: [{step: a}]}}'),
  ],
  [
    'two steps that only lead to each other, behind one that leads to them',
    playbook(
      '- §ENDLESS_CYCLE§{step: start, next: {arcs: [{step: a}]}}\n- {step: a, next: {arcs: [{step: b, when: "{{ ctx.x }}"}, {step: a}]}}\n- {step: b, next: {arcs: [{step: a}]}}',
    ),
  ],
  [
    'a step that hides a workload key',
    playbook('- §SHADOWED_NAME§{step: start, tool: {kind: noop}}', 'workload: {start: 1}\n'),
  ],
  ['a tool that is not built in', withTool('{kind: §TOOL_UNAVAILABLE§container}')],
  ['a template in code', withTool('{kind: python, code: §TEMPLATE_NOT_RENDERED§"x = {{ ctx.a }}"}')],
  [
    'an arc of the final step',
    playbook(
      '- {step: start, next: {}}\n- §IGNORED_FIELD§{step: last, next: {arcs: [{step: start}]}}',
      'executor: {spec: {final_step: last}}\n',
    ),
  ],
  [
    'rows of a frame at the same time',
    playbook(
      '- {step: a, loop: {cursor: {kind: postgres, claim: x}, spec: {mode: cursor, frame: {§IGNORED_FIELD§row_concurrency: 2}}}, tool: {kind: noop}}',
    ),
  ],
  ['a field without effect', withTool('{kind: playbook, path: "{{ ctx.p }}", §IGNORED_FIELD§task: x}')],
];

describe('WE-3.2a fields that are unknown or do not fit', () => {
  test.each(FIELDS)('%s is reported at its place', (_what, marked) => {
    const { text, expected } = withoutMarks(marked);
    expect(problemsOf(text)).toEqual(expected);
  });
});

describe.each([
  ['names', NAMES],
  ['routes and loops', ROUTES],
  ['two spellings at once', CONFLICTS],
  ['the language before v10', OLD],
  ['YAML', YAML],
  ['warnings', WARNINGS],
] as const)('%s', (_group, rows) => {
  test.each(rows)('%s is reported at its place', (_what, marked) => {
    const { text, expected } = withoutMarks(marked);
    expect(problemsOf(text)).toEqual(expected);
  });
});

describe('sub-playbooks', () => {
  const calls = (path: string, more = ''): string => withTool(`{kind: playbook, path: ${path}${more}}`);

  test('are a problem where they cannot be looked up, or do not exist', () => {
    expect(problemsOf(calls('x'))).toEqual(['CHILD_NOT_FOUND 5:46']);
    expect(problemsOf(calls('x'), { resolve: folder({}) })).toEqual(['CHILD_NOT_FOUND 5:46']);
  });

  test('that lead back to themselves are reported with the chain', () => {
    const resolve = folder({ a: calls('b'), b: calls('c'), c: calls('a') });
    const result = compileText(calls('a'), { resolve });
    expect(result.ok ? [] : result.problems.map(({ file, code }) => `${file} ${code}`)).toEqual(['c CHILD_CYCLE']);
    expect(result.ok ? '' : result.problems[0]!.message).toContain('a > b > c > a');
  });

  test('show their problems in their own file', () => {
    const result = compileText(calls('a'), { resolve: folder({ a: playbook('- {step: x}') }) });
    expect(result.ok ? [] : result.problems.map(({ file, code }) => `${file} ${code}`)).toEqual([
      'a INVALID_STEP_SCHEMA',
    ]);
  });

  test('must have the step whose result is asked for', () => {
    const resolve = folder({ a: playbook('- {step: x, next: {}}') });
    expect(problemsOf(calls('a', ', return_step: y'), { resolve })).toEqual(['CHILD_NOT_FOUND 5:62']);
    expect(problemsOf(calls('a', ', return_step: x'), { resolve })).toEqual([]);
  });

  test('are compiled once, however many name them', () => {
    const resolve = folder({ a: calls('c'), b: calls('c', ', return_step: x'), c: playbook('- {step: x, next: {}}') });
    const result = compileText(withTool('[{kind: playbook, path: a}, {kind: playbook, path: b}]'), { resolve });
    expect(result.ok && result.children.size).toBe(3);
  });
});

test('every problem of a file comes at once, in order, with its line and what to write', () => {
  const text = playbook('- step: a\n  when: x\n  tool: {kind: htp}\n  next: {arcs: [{step: b}]}\n');
  const result = compileText(text);
  const problems = result.ok ? [] : result.problems;
  expect(problems.map(({ code }) => code)).toEqual(['PRE_V10', 'UNKNOWN_TOOL', 'ARC_TO_NOWHERE']);
  expect(problems[1]).toMatchObject({
    file: 'test.yaml',
    line: 7,
    column: 16,
    path: 'workflow[0].tool.kind',
    severity: 'error',
  });
  expect(problems[1]!.message).toBe("there is no tool 'htp'; did you mean 'http'?");
  expect(problems[1]!.excerpt).toBe('7 |   tool: {kind: htp}\n                   ^');
  expect(formatProblems(problems.slice(1, 2))).toBe(
    "test.yaml:7:16 UNKNOWN_TOOL there is no tool 'htp'; did you mean 'http'?\n7 |   tool: {kind: htp}\n                   ^",
  );
  expect(formatProblems(problems, { color: true })).toContain('\u001b[31mPRE_V10\u001b[0m');
});

test('a message never carries control characters of the playbook to the terminal', () => {
  const text = playbook('- {step: a, next: {arcs: [{step: "b\\e[2J\u0085"}]}, "k\u202Ey": 1}');
  const result = compileText(text);
  expect(result.ok).toBe(false);
  const shown = result.ok ? '' : formatProblems(result.problems);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
  expect(shown).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
});

test('strict compilation refuses what is otherwise a warning', () => {
  const text = playbook('- {step: start, next: {}}\n- {step: b, tool: {kind: noop}}');
  expect(compileText(text).ok).toBe(true);
  expect(compileText(text, { strict: true }).ok).toBe(false);
});

test('every code says what it means', () => {
  for (const { meaning } of Object.values(PROBLEMS)) expect(meaning).toMatch(/^[A-Z].*\.$/);
});

test('a cycle that a condition can end is no endless one', () => {
  const back = '- {step: a, tool: {kind: noop}, next: {arcs: [{step: a, when: "{{ ctx.n < 3 }}"}]}}';
  const out =
    '- {step: a, next: {arcs: [{step: end, when: "{{ ctx.n }}"}, {step: a}]}}\n- {step: end, tool: {kind: noop}}';
  for (const workflow of [back, out]) expect(problemsOf(playbook(workflow))).toEqual([]);
});

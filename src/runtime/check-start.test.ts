import { expect, test } from 'vitest';
import { checkStart } from './check-start.ts';

const asked =
  (playbook: unknown, options: unknown = {}) =>
  () =>
    checkStart(playbook as never, options as never);

test.each([
  ['a text in the place of a file', 'kind: Playbook\nworkflow: []', {}, /its text is given as \{text/],
  ['nothing', undefined, {}, /is the name of a file, or an object/],
  ['two sources', { file: 'a.yaml', text: 'a' }, {}, /one of file, text and plan/],
  ['no source', { name: 'a' }, {}, /one of file, text and plan/],
  ['a mistyped option', 'a.yaml', { inputs: {} }, /no option 'inputs'; did you mean 'input'\?/],
  [
    'an unknown option',
    'a.yaml',
    { workload: {} },
    /no option 'workload'; it has input, runId, requestId, by, trigger\./,
  ],
  ['options that are none', 'a.yaml', 'fast', /options of a run are an object/],
  ['an input that is a text', 'a.yaml', { input: 'Ada' }, /`input` is an object of values/],
  ['an input that is a list', 'a.yaml', { input: [1] }, /`input` is an object of values/],
])('%s is refused', (_, playbook, options, message) => {
  expect(asked(playbook, options)).toThrow(
    expect.objectContaining({ code: 'USAGE', message: expect.stringMatching(message) }),
  );
});

const circle: Record<string, unknown> = {};
circle['again'] = circle;

test.each([
  ['a function', { input: { name: () => 'Ada' } }, /at \/name, .*function/],
  ['a bigint', { input: { deep: [1n] } }, /at \/deep\/0, .*bigint/],
  ['no number', { input: { n: Number.NaN } }, /at \/n, .*NaN/],
  ['a date', { input: { at: new Date() } }, /at \/at, .*plain objects/],
  ['a circle', { input: circle }, /200 levels/],
  ['a trigger that is a word', { trigger: 'webhook' }, /`trigger` is an object/],
  ['no trigger', { trigger: null }, /`trigger` is an object/],
])('USAGE says what a run cannot be given: %s', (_what, options, message) => {
  expect(asked('a.yaml', options)).toThrow(
    expect.objectContaining({ code: 'USAGE', message: expect.stringMatching(message) }),
  );
});

test.each([
  ['a number as text', { text: 5 }, /`text`/],
  ['a number as file', { file: 5 }, /`file`/],
  ['a number as name', { text: 'a\nb', name: 5 }, /`name`/],
  ['children that are no list', { plan: {}, children: 5 }, /`children`/],
])('USAGE names what is wrong with a playbook: %s', (_what, playbook, message) => {
  expect(asked(playbook)).toThrow(expect.objectContaining({ code: 'USAGE', message: expect.stringMatching(message) }));
});

test('what is documented is taken', () => {
  const options = { input: { n: 1 }, runId: 'r', requestId: 'q', by: 'me', trigger: { type: 'api' } };
  for (const playbook of ['a.yaml', { file: 'a.yaml' }, { text: 'a\nb', name: 'a.yaml' }, { plan: {} }])
    expect(asked(playbook, options)).not.toThrow();
  expect(asked('a.yaml', { input: undefined })).not.toThrow();
});

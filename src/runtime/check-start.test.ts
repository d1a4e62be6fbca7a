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

test('what is documented is taken', () => {
  const options = { input: { n: 1 }, runId: 'r', requestId: 'q', by: 'me', trigger: { type: 'api' } };
  for (const playbook of ['a.yaml', { file: 'a.yaml' }, { text: 'a\nb', name: 'a.yaml' }, { plan: {} }])
    expect(asked(playbook, options)).not.toThrow();
  expect(asked('a.yaml', { input: undefined })).not.toThrow();
});

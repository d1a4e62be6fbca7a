import { expect, test } from 'vitest';
import { checkList } from './check-list.ts';

test.each([
  ['nothing', null, /are an object/],
  ['a mistyped option', { limits: 3 }, /no option 'limits'; did you mean 'limit'\?/],
  ['a status that is none', { statuses: ['DONE'] }, /is a list of PENDING/],
  ['one status', { statuses: 'RUNNING' }, /is a list of PENDING/],
  ['no runs at all', { limit: 0 }, /from 1 on, not 0/],
  ['less than none', { limit: -1 }, /from 1 on, not -1/],
  ['a limit that is no number', { limit: 'x' }, /from 1 on, not x/],
  ['a plan that is no text', { planId: 5 }, /`planId`/],
  ['a page that none said', { before: '-5' }, /what `next`/],
])('USAGE says what a list cannot be asked for: %s', (_what, options, message) => {
  expect(() => checkList(options as never)).toThrow(
    expect.objectContaining({ code: 'USAGE', message: expect.stringMatching(message) }),
  );
});

test('what is documented is taken', () => {
  for (const options of [{}, { statuses: ['RUNNING'], planId: 'p', children: true, limit: 1, before: '12' }])
    expect(() => checkList(options as never)).not.toThrow();
});

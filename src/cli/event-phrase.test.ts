import { expect, test } from 'vitest';
import { EVENT_TYPES } from '../contracts/catalogue.ts';
import { eventPhrase } from './event-phrase.ts';

const error = { category: 'http', code: 'HTTP_503', message: 'busy', retryable: true };

test.each([
  ['StepCompleted', { durationMs: 1500, result: { value: { a: 1 } } }, '1.5 s  {"a":1}'],
  ['StepFailed', { durationMs: 12, error, result: { value: null } }, 'HTTP_503: busy  12 ms'],
  ['TaskAttemptStarted', { attempt: 2 }, 'try 2'],
  ['TaskFailed', { attempts: 3, error }, 'HTTP_503: busy  3 tries'],
  ['NextEvaluated', { boundary: 'step.done', matched: [], selected: [{ step: 'b' }] }, 'to b  after step.done'],
  [
    'NextEvaluated',
    { boundary: 'step.failed', selected: [], failure: { error } },
    'to no step  after step.failed  HTTP_503: busy',
  ],
  ['RunFailed', { error, rootCause: { stepId: 'get', error } }, 'in get  HTTP_503: busy'],
  ['StepScheduled', { tool: 'noop', cause: { kind: 'arc', arrivals: [{ from: 'a', arc: 0 }] } }, 'noop  after a'],
  ['CtxPatched', { set: { a: 1, b: 2 } }, 'ctx.a, ctx.b'],
] as const)('%s %j is said in a few words', (type, payload, phrase) => {
  expect(eventPhrase(type, payload)).toBe(phrase);
});

test('every type has a phrase, also where a producer of before left fields out', () => {
  for (const type of [...EVENT_TYPES, 'SomethingNew']) expect(eventPhrase(type, {})).not.toMatch(/\{|undefined, /);
});

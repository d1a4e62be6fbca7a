import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { requestKey, triggerKey } from './run-keys.ts';

const run = { runId: 'r', tenantId: 't', projectId: 'p', environmentId: 'e', planId: 'plan', planVersion: '2' };

test('ES-3g the key of a start request is SHA-256 over the six fields in their order', () => {
  const expected = createHash('sha256').update('t|p|e|plan|2|request-1', 'utf8').digest('hex');
  expect(requestKey(run, 'request-1')).toBe(expected);
  expect(requestKey({ ...run, planVersion: '3' }, 'request-1')).not.toBe(expected);
});

test('a trigger is the same whatever the plan version, and another one in another scope', () => {
  const trigger = { type: 'webhook', ref: 'ref-1' };
  expect(triggerKey(run)).toBeNull();
  expect(triggerKey({ ...run, trigger, planVersion: '9' })).toBe(triggerKey({ ...run, trigger }));
  expect(triggerKey({ ...run, trigger, projectId: 'q' })).not.toBe(triggerKey({ ...run, trigger }));
});

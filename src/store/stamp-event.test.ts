import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { sampleEvent, sampleRun } from '../testing/sample-events.ts';
import { prepareEvent } from './prepared-event.ts';
import { isStamped } from './stamp-event.ts';

const run = sampleRun(randomUUID());
const prepare = (event: ReturnType<typeof sampleEvent>) => prepareEvent(event, { as: 'worker', maxEventBytes: 1000 });
const stamped = (stepId: string) =>
  sampleEvent(run, { eventType: 'TaskDone', stepId, entity: `${stepId}/get:1`, payload: { attempts: 1 } });

test('RE-3.1a a stamped event cannot be changed, and a copy with another field is checked like any other', () => {
  const event = stamped('fetch');
  expect(isStamped(event)).toBe(true);
  expect(() => Object.assign(event, { stepId: 'other' })).toThrow(TypeError);
  const copy = { ...event, entity: 'fetch/get:2' };
  expect(isStamped(copy)).toBe(false);
  expect(() => prepare(copy)).toThrow(/idempotencyKey/);
  expect(prepare(event).recordHash).not.toBe('');
  expect({ ...prepare({ ...event }), salt: '', recordHash: '', event }).toEqual({
    ...prepare(event),
    salt: '',
    recordHash: '',
    event,
  });
});

test('RE-3.1c what comes from outside is checked in a stamped event too', () => {
  expect(() => prepare(stamped('a|b'))).toThrow(/stepId/);
  expect(() => prepare(stamped('x\u0000'))).toThrow(/stepId/);
  for (const facts of [{ logicalAttemptId: 0 }, { engineAttemptId: 1.5 }, { payload: { attempts: 'many' } }]) {
    const given = { eventType: 'TaskDone', stepId: 'fetch', entity: 'fetch/get:1', payload: { attempts: 1 }, ...facts };
    expect(() => prepare(sampleEvent(run, given))).toThrow(/is not valid/);
  }
  const late = sampleEvent(run, { eventType: 'TaskDone', stepId: 'a', entity: 'a/get:1' }, 'yesterday');
  expect(() => prepare(late)).toThrow(/emittedAt/);
});

import { Compile } from 'typebox/compile';
import { expect, test } from 'vitest';
import { CATALOGUE } from '../contracts/catalogue.ts';
import { recordLog, runStarted, type ShortEvent } from '../testing/record-log.ts';
import { fold } from './evolve.ts';
import { checkTransition, lastWord, ProducerGuard } from './guard.ts';
import { initialState } from './state.ts';

const after = (...events: ShortEvent[]) =>
  fold(initialState('r', { keepFinished: true }), recordLog('r', [runStarted('r'), ...events]));
const step = (eventType: string, logicalAttemptId = 1) => ({ eventType, stepId: 'a', logicalAttemptId });

test('RE-5.3a a producer finds its invalid transition itself and says what it expected', () => {
  const state = after({ type: 'StepScheduled', step: 'a' });
  expect(checkTransition(state, step('StepStarted'))).toBeUndefined();
  expect(checkTransition(state, step('StepCompleted'))).toEqual({
    invalidTransitionDetected: true,
    expectedState: 'RUNNING',
    actualState: 'PENDING',
    attemptedEventType: 'StepCompleted',
  });
  expect(checkTransition(state, { eventType: 'RunResumed', logicalAttemptId: 1 })).toMatchObject({
    expectedState: 'PAUSED',
    actualState: 'RUNNING',
  });
  const ended = after({ type: 'RunCompleted' });
  expect(checkTransition(ended, step('StepStarted'))).toMatchObject({ actualState: 'COMPLETED' });
  expect(checkTransition(ended, { eventType: 'AlertRaised', logicalAttemptId: 1 })).toBeUndefined();
  expect(checkTransition(ended, { eventType: 'Nonsense', logicalAttemptId: 1 })).toBeDefined();
});

test('a repeated emission of a fact is no invalid transition: the authority answers it with the stored record', () => {
  const state = after({ type: 'StepStarted', step: 'a' }, { type: 'StepCompleted', step: 'a' });
  expect(checkTransition(state, step('StepStarted'))).toBeUndefined();
  expect(checkTransition(state, step('StepCompleted'))).toBeUndefined();
  expect(checkTransition(state, { eventType: 'RunStarted', logicalAttemptId: 1 })).toBeUndefined();
  expect(checkTransition(state, step('StepStarted', 2))).toBeUndefined();
});

test('RE-5.3a after an invalid transition nothing more is emitted for that entity, and other entities go on', () => {
  const guard = new ProducerGuard();
  const state = after({ type: 'StepScheduled', step: 'a' });
  const found = guard.check(state, step('StepCompleted'));
  expect(found).toBeDefined();
  expect(guard.check(state, step('StepStarted'))).toEqual(found);
  expect(guard.check(state, { eventType: 'StepStarted', stepId: 'b', logicalAttemptId: 1 })).toBeUndefined();
  expect(guard.check(state, { eventType: 'RunResumed', logicalAttemptId: 1 })).toBeDefined();
  expect(guard.check(state, { eventType: 'StepStarted', stepId: 'b', logicalAttemptId: 1 })).toBeDefined();
});

test('RE-5.3d the last word is StepFailed only while the step is RUNNING, RunFailed only where that is valid', () => {
  const running = after({ type: 'StepStarted', step: 'a' });
  const found = {
    invalidTransitionDetected: true,
    expectedState: 'PENDING',
    actualState: 'RUNNING',
    attemptedEventType: 'StepSkipped',
  } as const;
  const last = (state: typeof running, event: Parameters<typeof lastWord>[1]) => lastWord(state, event, found);
  expect(last(running, step('StepSkipped'))).toMatchObject({ eventType: 'StepFailed', stepId: 'a', payload: found });
  expect(last(running, step('StepSkipped', 2))).toBeUndefined();
  expect(last(after({ type: 'StepScheduled', step: 'a' }), step('StepCompleted'))).toBeUndefined();
  const run = { eventType: 'RunResumed', logicalAttemptId: 1 };
  expect(last(running, run)).toMatchObject({ eventType: 'RunFailed', payload: found });
  expect(last(after({ type: 'RunPaused' }), run)).toBeUndefined();
  for (const word of [last(running, step('StepSkipped')), last(running, run)]) {
    const schema = CATALOGUE[word!.eventType].payload;
    expect(Compile(schema).Check(word!.payload)).toBe(true);
  }
});

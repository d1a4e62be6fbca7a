import fc from 'fast-check';
import { EVENT_TYPES } from '../contracts/catalogue.ts';
import type { RunEventRecord } from '../contracts/envelope.ts';
import { recordLog, type ShortEvent } from './record-log.ts';

const STEPS = ['a', 'b', 'a#2', 'c'];
const error = { category: 'tool', code: 'BOOM', message: 'm', retryable: true };

const step = fc.constantFrom(...STEPS);
const ref = fc.constantFrom(...STEPS.map((from) => ({ from, arc: 0 })));
const value = fc.oneof(fc.constant({ value: 1 }), fc.constant({ value: { x: [1, 2] } }));

/** Payload fields that some type reads, with values that it understands. */
const payload = fc.record(
  {
    error: fc.constant(error),
    result: value,
    artifacts: fc.array(fc.record({ uri: fc.constantFrom('s3://1', 's3://2'), kind: fc.constant('log') }), {
      maxLength: 2,
    }),
    reason: fc.constantFrom('RETRY', 'x'),
    cause: fc.oneof(
      fc.constant({ kind: 'entry' }),
      fc.record({ kind: fc.constant('arc'), arrivals: fc.uniqueArray(ref, { minLength: 1, maxLength: 2 }) }),
    ),
    selected: fc.array(fc.record({ step: fc.constantFrom('a', 'b', 'c'), arc: fc.constant(0) }), { maxLength: 2 }),
    failure: fc.constantFrom(undefined, undefined, { error, mode: 'fail_fast' }),
    set: fc.dictionary(fc.constantFrom('k', 'l.m', '__proto__'), fc.nat({ max: 2 })),
    index: fc.nat({ max: 4 }),
    mode: fc.constantFrom('sequential', 'parallel', 'exclusive'),
    count: fc.constant(5),
    finished: fc.constantFrom([], [1, 2]),
    kind: fc.constantFrom('approval', 'timer', 'child', 'hold'),
    signalId: fc.constantFrom('s1', 's2'),
    signalType: fc.constantFrom('PAUSE', 'CANCEL'),
    gate: fc.constantFrom(undefined, 'approval'),
    tokens: fc.constantFrom(undefined, [{ step: 'c', arc: 1 }]),
    status: fc.constantFrom('SUCCESS', 'FAILED', 'SKIPPED'),
  },
  { requiredKeys: [] },
);

const shortEvent: fc.Arbitrary<ShortEvent> = fc
  .record({
    type: fc.oneof(
      { weight: 6, arbitrary: fc.constantFrom(...EVENT_TYPES) },
      {
        weight: 10,
        arbitrary: fc.constantFrom('StepScheduled', 'StepStarted', 'StepCompleted', 'StepFailed', 'NextEvaluated'),
      },
      { weight: 1, arbitrary: fc.constant('FromTheFuture') },
    ),
    step,
    below: fc.constantFrom('', '/wait:1', '/ctx:1', '/2', '/2/wait:1', '/t:1@1'),
    attempt: fc.constantFrom(1, 1, 1, 2),
    gap: fc.constantFrom(1, 1, 1, 3),
    payload,
  })
  .map(({ type, step, below, attempt, payload }) => ({
    type,
    attempt,
    payload: JSON.parse(JSON.stringify(payload)) as Record<string, unknown>,
    ...(type.startsWith('Run') ? {} : { step, ...(below ? { entity: `${step}${below}` } : {}) }),
  }));

/** Any log at all: valid moves, invalid ones, duplicates, late events and unknown types. */
export const arbitraryLog: fc.Arbitrary<RunEventRecord[]> = fc
  .array(shortEvent, { maxLength: 60 })
  .map((events) => recordLog('r', [{ type: 'RunStarted', payload: {} }, ...events]));

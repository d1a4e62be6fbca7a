import { expect, test } from 'vitest';
import type { CanonicalEvent } from '../contracts/canonical-event.ts';
import { CATALOGUE, EVENT_TYPES } from '../contracts/catalogue.ts';
import { recordLog, type ShortEvent } from '../testing/record-log.ts';
import { canonicalView } from './canonical-view.ts';
import { ingest } from './ingest.ts';

const envelope = (event: Partial<CanonicalEvent>): CanonicalEvent => ({
  event_id: '01JH',
  event_type: 'task.started',
  timestamp: '2026-02-05T23:11:22Z',
  execution_id: 'exec_1',
  entity_type: 'task',
  entity_id: 'fetch_page',
  parent_id: 'step:fetch:run:7',
  task_run_id: 'task:fetch_page:run:1',
  ...event,
});
const typeOf = (event: Partial<CanonicalEvent>) => ingest(envelope(event), { firstParty: false })[0]?.eventType;

test('NE-4a legacy types are normalised by the six rows of the table', () => {
  expect(typeOf({ event_type: 'tool.started' })).toBe('TaskStarted');
  expect(typeOf({ event_type: 'tool.processed', status: 'success' })).toBe('TaskDone');
  expect(typeOf({ event_type: 'tool.processed', status: 'error' })).toBe('TaskFailed');
  expect(typeOf({ event_type: 'retry.started' })).toBe('TaskAttemptStarted');
  expect(typeOf({ event_type: 'retry.processed', status: 'success' })).toBe('TaskAttemptDone');
  expect(typeOf({ event_type: 'retry.processed', status: 'error' })).toBe('TaskAttemptFailed');
  expect(typeOf({ event_type: 'sink.started' })).toBe('TaskStarted');
  expect(typeOf({ event_type: 'sink.done', status: 'success' })).toBe('TaskDone');
  expect(typeOf({ event_type: 'case.evaluated', payload: { matched: [], selected: [] } })).toBe('NextEvaluated');
  expect(typeOf({ event_type: 'case.matched', payload: { action: { do: 'retry' } } })).toBe('PolicyTaskEvaluated');
  expect(typeOf({ event_type: 'case.matched', payload: { meta: { allow: false } } })).toBe('PolicyAdmitEvaluated');
});

test('NE-4a a first-party emission of a legacy type is refused with the name to use', () => {
  for (const event_type of ['tool.started', 'tool.processed', 'retry.started', 'retry.processed', 'sink.x', 'case.x']) {
    expect(() => ingest(envelope({ event_type }), { firstParty: true })).toThrowError(
      expect.objectContaining({ code: 'LEGACY_EVENT_TYPE' }),
    );
  }
  expect(ingest(envelope({}), { firstParty: true })).toHaveLength(1);
});

test('an attempt keeps its step instance, task run and attempt', () => {
  const [event] = ingest(envelope({ event_type: 'retry.processed', status: 'error', attempt: 2, iteration: 4 }), {
    firstParty: false,
  });
  expect(event).toMatchObject({ stepId: 'fetch#7', entity: 'fetch#7/4/fetch_page:1@2', payload: { attempt: 2 } });
});

test('a name that only follows another one is absorbed, so that a fact is stored once', () => {
  expect(ingest(envelope({ event_type: 'workflow.started' }), { firstParty: false })).toEqual([]);
  expect(ingest(envelope({ event_type: 'playbook.finished' }), { firstParty: false })).toEqual([]);
  expect(typeOf({ event_type: 'playbook.started' })).toBe('RunStarted');
});

test('the end of a run is told apart by status and outcome', () => {
  const event_type = 'workflow.finished';
  expect(typeOf({ event_type, status: 'success' })).toBe('RunCompleted');
  expect(typeOf({ event_type, status: 'error' })).toBe('RunFailed');
  expect(typeOf({ event_type, status: 'error', payload: { meta: { outcome: 'cancelled' } } })).toBe('RunCancelled');
});

test('a name that is in no table is refused', () => {
  expect(() => ingest(envelope({ event_type: 'cache.warmed' }), { firstParty: false })).toThrowError(
    expect.objectContaining({ code: 'SCHEMA_VALIDATION_FAILED' }),
  );
  expect(() =>
    ingest({ ...envelope({ event_type: 'step.done' }), entity_type: 'task', parent_id: 'x' }, { firstParty: false }),
  ).toThrowError(expect.objectContaining({ code: 'SCHEMA_VALIDATION_FAILED' }));
});

test('view and ingest are inverse for every type of the catalogue', () => {
  const result = {
    ref: { uri: 's3://b/1', kind: 'result', sha256: 'a'.repeat(64), sizeBytes: 9 },
    store: 's3',
    totalBytes: 9,
    extracted: { a: 1 },
    preview: [1],
  };
  for (const type of EVENT_TYPES) {
    const place: Partial<ShortEvent> = {
      run: {},
      signal: { entity: 'signal/s1' },
      step: { step: 'fetch#2' },
      iteration: { step: 'fetch#2', entity: 'fetch#2/3' },
      task: { step: 'fetch#2', entity: 'fetch#2/3/get:2' },
      attempt: { step: 'fetch#2', entity: 'fetch#2/3/get:2@4' },
      effect: { step: 'fetch#2', entity: 'fetch#2/3/get:2@4' },
      occurrence: { step: 'fetch#2', entity: 'fetch#2/3/wait:5' },
      part: { step: 'fetch#2', entity: 'fetch#2/3/get:2@4' },
    }[CATALOGUE[type].level];
    const payload = {
      mode: 'm',
      matchedRuleIndex: 2,
      attempt: 4,
      result,
      error: { code: 'E' },
      reason: 'r',
      inputs: 1,
    };
    const [record] = recordLog('exec_1', [{ type, ...place, attempt: 3, engineAttempt: 5, payload }]);
    const events = canonicalView(record!).flatMap((event) => ingest(event, { firstParty: true }));
    const { eventId, eventType, runId, emittedAt, stepId, entity, logicalAttemptId, engineAttemptId } = record!;
    expect(events).toEqual([
      {
        eventId,
        eventType,
        runId,
        emittedAt,
        ...(stepId === undefined ? {} : { stepId }),
        ...(entity === undefined ? {} : { entity }),
        logicalAttemptId,
        engineAttemptId,
        payload,
      },
    ]);
  }
});

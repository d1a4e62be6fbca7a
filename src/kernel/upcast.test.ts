import { expect, test } from 'vitest';
import { fold } from './evolve.ts';
import { initialState } from './state.ts';
import { toSnapshot } from './to-snapshot.ts';
import { identityOf, upcastV1 } from './upcast.ts';

/** The example of the v1 contract, appendix A.1. */
const A1 = {
  eventType: 'RunStarted',
  eventId: '01234567-89ab-cdef-0123-456789abcdef',
  runId: 'run_2026-02-11_abc123',
  runSeq: 2,
  idempotencyKey: 'd2a84f4b8b650937ec8f73cd8be2c74add5a911ba64df27458ed8229da804a26',
  emittedAt: '2026-02-11T10:30:00.000Z',
  emittedBy: 'engine',
  status: 'RUNNING',
  engineRunRef: 'temporal://default/interpreter-workflow/run_2026-02-11_abc123/f47ac10b',
  engineType: 'temporal',
  planRef: {
    uri: 's3://dvt-plans/prod/plan_xyz_v1.2.json',
    sha256: 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    schemaVersion: 'v1.2',
    planId: 'plan_xyz',
    planVersion: '1.2',
  },
  context: {
    tenantId: 'tenant_acme',
    projectId: 'proj_marketing',
    environmentId: 'prod',
    triggeredBy: 'user_jane',
    triggerSource: 'manual',
  },
  startedAt: '2026-02-11T10:30:00.000Z',
};

test('RE-R2 a v1 event becomes a record deterministically: id and key as stored, attempts 1, payload gathered', () => {
  const record = upcastV1(A1);
  expect(record).toEqual(upcastV1(structuredClone(A1)));
  expect(record).toEqual({
    eventId: A1.eventId,
    eventType: 'RunStarted',
    emittedAt: A1.emittedAt,
    runId: A1.runId,
    tenantId: 'tenant_acme',
    projectId: 'proj_marketing',
    environmentId: 'prod',
    planId: 'plan_xyz',
    planVersion: '1.2',
    engineAttemptId: 1,
    logicalAttemptId: 1,
    idempotencyKey: A1.idempotencyKey,
    runSeq: 2,
    persistedAt: A1.emittedAt,
    payload: {
      emittedBy: 'engine',
      status: 'RUNNING',
      engineType: 'temporal',
      engineRunRef: {
        provider: 'temporal',
        namespace: 'default',
        workflowId: 'interpreter-workflow',
        runId: A1.runId,
        providerRunId: 'f47ac10b',
      },
      planRef: A1.planRef,
      context: A1.context,
      startedAt: A1.startedAt,
    },
  });
});

test('RE-R2 v1 and v2 events of one run fold together', () => {
  const first = upcastV1(A1);
  const step = {
    eventType: 'onStepFailed',
    eventId: 'x',
    runId: A1.runId,
    idempotencyKey: 'k',
    occurredAt: A1.emittedAt,
    stepId: 'model.orders',
    logicalAttemptId: '1',
    engineAttemptId: '3',
    error: { code: 'E', message: 'm', retryable: true },
  };
  const identity = identityOf(first);
  const log = [
    first,
    upcastV1({ ...step, eventType: 'StepStarted', runSeq: 3 }, identity),
    upcastV1({ ...step, runSeq: 5 }, identity),
  ];
  const snapshot = toSnapshot(fold(initialState(A1.runId, { keepFinished: true }), log));
  expect(snapshot).toMatchObject({
    status: 'RUNNING',
    lastEventSeq: 5,
    failedSteps: 1,
    steps: [
      {
        stepId: 'model.orders',
        status: 'FAILED',
        engineAttemptId: 3,
        error: { category: 'unknown', code: 'E', message: 'm', retryable: true },
      },
    ],
    metadata: { inconsistent: false },
  });
});

test('a v1 event that lacks what it must have is refused with its field', () => {
  for (const [event, field] of [
    [null, 'object'],
    [{ ...A1, runId: undefined }, 'runId'],
    [{ ...A1, runSeq: '2' }, 'runSeq'],
    [{ ...A1, planRef: undefined }, 'planId'],
    [{ ...A1, context: [] }, 'tenantId'],
  ] as const) {
    expect(() => upcastV1(event)).toThrowError(
      expect.objectContaining({ code: 'SCHEMA_VALIDATION_FAILED', message: expect.stringContaining(field) }),
    );
  }
});

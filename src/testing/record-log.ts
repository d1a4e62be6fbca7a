import type { RunEventRecord } from '../contracts/envelope.ts';

/** The short form of an event in a test: a type, where it belongs, and what is special about it. */
export interface ShortEvent {
  readonly type: string;
  readonly step?: string;
  readonly entity?: string;
  readonly attempt?: number;
  readonly engineAttempt?: number;
  readonly at?: string;
  readonly seq?: number;
  readonly payload?: Record<string, unknown>;
}

export const TEST_CONTEXT = { tenantId: 'acme', projectId: 'shop', environmentId: 'test' } as const;
export const TEST_PLAN_REF = {
  uri: 'runledger-plan:sha256/0000000000000000000000000000000000000000000000000000000000000000',
  sha256: '0000000000000000000000000000000000000000000000000000000000000000',
  schemaVersion: 'v1.0',
  planId: 'plan',
  planVersion: '1',
} as const;

/** Times that differ by one second per event, from the start of 2026. */
export function testTime(second: number): string {
  return new Date(Date.UTC(2026, 0, 1) + second * 1000).toISOString();
}

/** Records as a store would hand them out. Ids are stable, so two calls give the same log. */
export function recordLog(runId: string, events: readonly ShortEvent[]): RunEventRecord[] {
  let seq = 0;
  return events.map((event) => {
    seq = event.seq ?? seq + 1;
    const at = event.at ?? testTime(seq);
    return {
      eventId: `00000000-0000-4000-8000-${String(seq).padStart(12, '0')}`,
      eventType: event.type,
      emittedAt: at,
      runId,
      ...TEST_CONTEXT,
      planId: TEST_PLAN_REF.planId,
      planVersion: TEST_PLAN_REF.planVersion,
      engineAttemptId: event.engineAttempt ?? 1,
      logicalAttemptId: event.attempt ?? 1,
      idempotencyKey: '0'.repeat(64),
      ...(event.step === undefined ? {} : { stepId: event.step }),
      ...(event.entity === undefined ? {} : { entity: event.entity }),
      ...(event.payload === undefined ? {} : { payload: event.payload }),
      runSeq: seq,
      persistedAt: at,
    };
  });
}

export const runStarted = (runId: string): ShortEvent => ({
  type: 'RunStarted',
  payload: {
    status: 'RUNNING',
    engineRunRef: { provider: 'mock', workflowId: `wf-${runId}`, runId },
    engineType: 'mock',
    planRef: TEST_PLAN_REF,
    context: TEST_CONTEXT,
    startedAt: testTime(0),
  },
});

import { randomUUID } from 'node:crypto';
import type { RunEventWrite } from '../contracts/envelope.ts';
import { idempotencyKey } from '../lib/idempotency-key.ts';
import type { RunIdentity } from './sql/read-events.ts';

/** What is special about one event; the rest of the envelope follows from its run. */
export interface EventFacts {
  readonly eventType: string;
  readonly stepId?: string | undefined;
  readonly entity?: string | undefined;
  readonly logicalAttemptId?: number | undefined;
  readonly engineAttemptId?: number | undefined;
  readonly payload?: Record<string, unknown> | undefined;
}

export interface Stamp {
  readonly emittedAt: string;
  /** From an EventIdRegistry where the event may be sent again; a fresh v4 otherwise. */
  readonly eventId?: string;
}

/** Completes an event: identity of the run, id, time and idempotency key. */
export function stampEvent(run: Omit<RunIdentity, 'runKey'>, facts: EventFacts, stamp: Stamp): RunEventWrite {
  const event = {
    eventType: facts.eventType,
    emittedAt: stamp.emittedAt,
    runId: run.runId,
    tenantId: run.tenantId,
    projectId: run.projectId,
    environmentId: run.environmentId,
    planId: run.planId,
    planVersion: run.planVersion,
    engineAttemptId: facts.engineAttemptId ?? 1,
    logicalAttemptId: facts.logicalAttemptId ?? 1,
    ...(facts.stepId === undefined ? {} : { stepId: facts.stepId }),
    ...(facts.entity === undefined ? {} : { entity: facts.entity }),
    ...(facts.payload === undefined ? {} : { payload: facts.payload }),
  };
  return { ...event, eventId: stamp.eventId ?? randomUUID(), idempotencyKey: idempotencyKey(event) };
}

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
  // Assigned field by field: this runs for every event, and spreads of optional parts cost several times as much.
  const event: RunEventWrite = {
    eventId: stamp.eventId ?? randomUUID(),
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
    idempotencyKey: '',
  };
  if (facts.stepId !== undefined) event.stepId = facts.stepId;
  if (facts.entity !== undefined) event.entity = facts.entity;
  if (facts.payload !== undefined) event.payload = facts.payload;
  event.idempotencyKey = idempotencyKey(event);
  return event;
}

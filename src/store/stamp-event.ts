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
  /** Of an event that does not name one itself. */
  readonly engineAttemptId?: number;
  /** From an EventIdRegistry where the event may be sent again; a fresh v4 otherwise. */
  readonly eventId?: string;
}

/** An event whose id, key and place in a run were written here. A copy of it with other fields is not one any more. */
class StampedEvent implements RunEventWrite {
  readonly #isStamped = true;
  readonly eventId: string;
  readonly eventType: string;
  readonly emittedAt: string;
  readonly runId: string;
  readonly tenantId: string;
  readonly projectId: string;
  readonly environmentId: string;
  readonly planId: string;
  readonly planVersion: string;
  readonly engineAttemptId: number;
  readonly logicalAttemptId: number;
  readonly idempotencyKey: string;
  declare readonly stepId?: string;
  declare readonly entity?: string;
  declare readonly payload?: Record<string, unknown>;

  // Assigned field by field: this runs for every event, and spreads of optional parts cost several times as much.
  constructor(run: Omit<RunIdentity, 'runKey'>, facts: EventFacts, stamp: Stamp) {
    this.eventId = randomUUID();
    this.eventType = facts.eventType;
    this.emittedAt = stamp.emittedAt;
    this.runId = run.runId;
    this.tenantId = run.tenantId;
    this.projectId = run.projectId;
    this.environmentId = run.environmentId;
    this.planId = run.planId;
    this.planVersion = run.planVersion;
    this.engineAttemptId = facts.engineAttemptId ?? stamp.engineAttemptId ?? 1;
    this.logicalAttemptId = facts.logicalAttemptId ?? 1;
    if (facts.stepId !== undefined) this.stepId = facts.stepId;
    if (facts.entity !== undefined) this.entity = facts.entity;
    if (facts.payload !== undefined) this.payload = facts.payload;
    this.idempotencyKey = idempotencyKey(this);
    // What the key was made of stays as it is, so that nobody need make it again.
    Object.freeze(this);
  }

  static is(event: object): boolean {
    return #isStamped in event;
  }
}

/** Completes an event: identity of the run, id, time and idempotency key. */
export function stampEvent(run: Omit<RunIdentity, 'runKey'>, facts: EventFacts, stamp: Stamp): RunEventWrite {
  const event = new StampedEvent(run, facts, stamp);
  return stamp.eventId === undefined ? event : { ...event, eventId: stamp.eventId };
}

/** Whether id, key and place are those that stampEvent wrote, so that the store need not check them again. */
export function isStamped(event: unknown): boolean {
  return typeof event === 'object' && event !== null && StampedEvent.is(event);
}

import { ALERTS, type Alert, type AlertCode } from '../contracts/alerts.ts';
import { sha256Hex } from '../lib/hash.ts';
import { microsToText } from '../lib/time.ts';
import type { ProjectionStand } from '../store/sql/claim-projections.ts';
import type { HorizonHolder, StreamSnapshot } from '../store/sql/stream-snapshot.ts';
import type { FoundViolation, Gap } from './run-projection.ts';

export type NewAlert = Omit<Alert, 'raisedAt'>;

const MAX_KEY = 512;

/** Two parts cannot be mistaken for others: the ones that may hold anything come last, and run ids hold no '|'. */
function dedupeKey(code: AlertCode, ...parts: readonly (string | number)[]): string {
  const key = [code, ...parts].join('|');
  return key.length <= MAX_KEY ? key : `${code}|sha256:${sha256Hex(key)}`;
}

function scopeOf({ runId, tenantId, projectId, environmentId }: ProjectionStand) {
  return { runId, tenantId, projectId, environmentId };
}

/** Layer 3: the log holds an event that its state did not allow. */
export function invalidTransition(run: ProjectionStand, found: FoundViolation): NewAlert {
  const { event, prior, attempted, stepId } = found;
  const where = stepId === undefined ? 'the run' : `step ${stepId}`;
  return {
    code: 'INVALID_TRANSITION',
    severity: ALERTS.INVALID_TRANSITION.severity,
    message: `${event.eventType} (runSeq ${event.runSeq}) would have moved ${where} of run ${run.runId} from ${prior} to ${attempted}; it was ignored`,
    dedupeKey: dedupeKey('INVALID_TRANSITION', run.runId, event.eventId),
    ...scopeOf(run),
    eventId: event.eventId,
    eventType: event.eventType,
    runSeq: event.runSeq,
    persistedAt: event.persistedAt,
    details: { priorState: prior, attemptedState: attempted, ...(stepId === undefined ? {} : { stepId }) },
  };
}

export function nonContiguous(run: ProjectionStand, gap: Gap): NewAlert {
  return {
    code: 'PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED',
    severity: ALERTS.PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED.severity,
    message: `Run ${run.runId}: runSeq ${gap.nextSeq} was read right after ${gap.lastSeq}; the run is read again from its beginning`,
    dedupeKey: dedupeKey('PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED', run.runId, gap.lastSeq, gap.nextSeq),
    ...scopeOf(run),
    details: { lastSeq: gap.lastSeq, nextSeq: gap.nextSeq },
  };
}

export function lagHigh(lagMs: number, limitMs: number, oldestMicros: number, episode: string): NewAlert {
  return {
    code: 'PROJECTOR_LAG_HIGH',
    severity: ALERTS.PROJECTOR_LAG_HIGH.severity,
    message: `The oldest event that is not projected is ${Math.round(lagMs)} ms old; more than ${limitMs} ms is too much`,
    dedupeKey: dedupeKey('PROJECTOR_LAG_HIGH', episode),
    persistedAt: microsToText(oldestMicros),
    details: { lagMs: Math.round(lagMs), limitMs, since: episode },
  };
}

export function horizonHeld(now: StreamSnapshot, heldMs: number, holder: HorizonHolder | undefined): NewAlert {
  const who = holder
    ? `session ${holder.pid} (${holder.application}, user ${holder.user}, database ${holder.database})`
    : 'a session that this user may not see';
  return {
    code: 'STREAM_HORIZON_HELD',
    severity: ALERTS.STREAM_HORIZON_HELD.severity,
    message: `Transaction ${now.xmin} of ${who} has been open for ${Math.round(heldMs)} ms; deliveries wait for it`,
    dedupeKey: dedupeKey('STREAM_HORIZON_HELD', now.era, now.xmin),
    details: { era: now.era, xid: now.xmin, heldMs: Math.round(heldMs), ...(holder ? { session: { ...holder } } : {}) },
  };
}

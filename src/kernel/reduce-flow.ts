import { patchCtx } from './ctx.ts';
import { parseEntity } from './entity-path.ts';
import { errorOf, isObject, type JsonObject, objectOf, textOf } from './payload-reader.ts';
import { isDuplicate, noteHandled, SEEN } from './reduce-step.ts';
import type { OpenIteration, RunFailure, Verdict, WaitState } from './state.ts';
import { copyStep, findStep, some } from './step-state.ts';
import { leave, selectedOf } from './tokens.ts';
import { type KernelEvent, noteErased, type Reducer, refuse, type Work } from './work.ts';

function nextEvaluated(work: Work, event: KernelEvent): void {
  if (event.erased) noteErased(work, event);
  const { draft, owner } = work;
  const step = event.stepId === undefined ? undefined : draft.open.get(event.stepId);
  if (!step || event.logicalAttemptId !== step.attempt || isDuplicate(step, step.attempt, SEEN.NextEvaluated)) return;
  if (step.status === 'PENDING' || step.status === 'RUNNING') {
    refuse(work, event, step.status, 'ROUTED');
    return;
  }
  const payload = objectOf(event.payload);
  const failure = failureOf(step.stepId, payload['failure']);
  if (failure) {
    // Kept in `open`: RETRY_STEP may give it another attempt as long as the run has not ended.
    draft.run = { ...draft.run, failure: draft.run.failure ?? failure };
    draft.unrouted = draft.unrouted.delete(step.stepId, owner);
    const kept = copyStep(step);
    kept.seen |= SEEN.NextEvaluated;
    draft.open = draft.open.set(step.stepId, kept, owner);
    return;
  }
  noteHandled(work, step);
  leave(work, step, SEEN.NextEvaluated, selectedOf(payload['selected']), textOf(payload['boundary']));
}

function failureOf(stepId: string, value: unknown): RunFailure | undefined {
  if (!isObject(value)) return undefined;
  const mode = value['mode'] === 'best_effort' ? 'best_effort' : 'fail_fast';
  return { stepId, error: errorOf(value['error']), mode };
}

function admitEvaluated(work: Work, event: KernelEvent): void {
  if (event.erased) noteErased(work, event);
  const failure = objectOf(event.payload)['failure'];
  if (!isObject(failure) || work.draft.run.failure) return;
  const error = errorOf(failure);
  work.draft.run = { ...work.draft.run, failure: { ...some('stepId', event.stepId), error, mode: 'fail_fast' } };
}

interface Counters {
  readonly engineAttempt?: number | undefined;
  readonly waits: number;
  readonly patches: number;
  readonly openWaits: number;
  readonly eligible: boolean;
  readonly verdict: Verdict | undefined;
}

/** Changes the counters of the step or iteration that an entity is below. False: there is no such unit any more. */
function change(work: Work, event: KernelEvent, update: (unit: Counters) => Partial<Counters> | undefined): boolean {
  const { draft, owner } = work;
  const path = event.entity === undefined ? undefined : parseEntity(event.entity);
  const stepId = path?.stepId ?? event.stepId;
  const step = stepId === undefined ? undefined : findStep(draft, stepId);
  if (!step) return false;
  if (path?.iteration === undefined) {
    const changed = update(step);
    if (!changed) return false;
    const next = Object.assign(copyStep(step), changed);
    if (draft.open.has(step.stepId)) draft.open = draft.open.set(step.stepId, next, owner);
    else draft.done = draft.done.set(step.stepId, next, owner);
    return true;
  }
  const loop = draft.loops.get(step.stepId);
  const entry = loop?.open.get(path.iteration);
  const changed = entry && update(entry);
  if (!loop || !changed) return false;
  const next: OpenIteration = { ...entry, ...changed };
  draft.loops = draft.loops.set(step.stepId, { ...loop, open: loop.open.set(path.iteration, next, owner) }, owner);
  return true;
}

const numberOf = (event: KernelEvent): number =>
  (event.entity === undefined ? undefined : parseEntity(event.entity)?.occurrence) ?? 1;

function waitStarted(work: Work, event: KernelEvent): void {
  if (event.erased) noteErased(work, event);
  const { entity } = event;
  if (entity === undefined) return;
  const number = numberOf(event);
  const fresh = change(work, event, (unit) =>
    number <= unit.waits
      ? undefined
      : {
          waits: number,
          openWaits: unit.openWaits + 1,
          eligible: false,
          ...some('engineAttempt', event.engineAttemptId),
        },
  );
  if (!fresh) return;
  const wait = waitOf(event, entity, objectOf(event.payload));
  work.draft.waits = work.draft.waits.set(entity, wait, work.owner);
}

function waitOf(event: KernelEvent, entity: string, payload: JsonObject): WaitState {
  const path = parseEntity(entity);
  const kind = payload['kind'];
  return {
    entity,
    stepId: path?.stepId ?? (event.stepId as string),
    ...some('iteration', path?.iteration),
    attempt: event.logicalAttemptId,
    ...some('engineAttempt', event.engineAttemptId),
    kind: kind === 'approval' || kind === 'child' || kind === 'hold' ? kind : 'timer',
    ...some('dueAt', textOf(payload['dueAt'])),
    ...some('childRunId', textOf(payload['childRunId'])),
    ...some('approvalId', textOf(payload['approvalId'])),
    ...some('actionDigest', textOf(payload['actionDigest'])),
    ...some('details', isObject(payload['details']) ? payload['details'] : undefined),
  };
}

function waitEnded(work: Work, event: KernelEvent): void {
  const { draft, owner } = work;
  if (event.entity === undefined || !draft.waits.has(event.entity)) return;
  draft.waits = draft.waits.delete(event.entity, owner);
  const verdict = verdictOf(objectOf(event.payload)['outcome']);
  change(work, event, (unit) => ({
    openWaits: Math.max(0, unit.openWaits - 1),
    eligible: unit.openWaits <= 1,
    verdict: unit.verdict ?? verdict,
  }));
}

function verdictOf(outcome: unknown): Verdict | undefined {
  if (outcome === 'rejected') return 'APPROVAL_REJECTED';
  return outcome === 'expired' ? 'APPROVAL_EXPIRED' : undefined;
}

function ctxPatched(work: Work, event: KernelEvent): void {
  if (event.erased) noteErased(work, event);
  const number = numberOf(event);
  const fresh = change(work, event, (unit) => (number <= unit.patches ? undefined : { patches: number }));
  if (fresh) work.draft.ctx = patchCtx(work.draft.ctx, objectOf(objectOf(event.payload)['set']));
}

/** Somebody works on the unit again: it is no longer waiting to be taken up. */
export function takenUp(work: Work, event: KernelEvent): void {
  const step = event.stepId === undefined ? undefined : work.draft.open.get(event.stepId);
  if (!step || (!step.eligible && !work.draft.loops.has(step.stepId))) return;
  change(work, event, (unit) => (unit.eligible ? { eligible: false } : undefined));
}

export const FLOW_REDUCERS = {
  NextEvaluated: nextEvaluated,
  PolicyAdmitEvaluated: admitEvaluated,
  WaitStarted: waitStarted,
  WaitEnded: waitEnded,
  CtxPatched: ctxPatched,
} as const satisfies Record<string, Reducer>;

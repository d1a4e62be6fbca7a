import { isTerminal } from '../contracts/states.ts';
import type { ErrorInfo } from '../contracts/values.ts';
import type { Deciding } from './deciding.ts';
import { stepNameOf, unitEntity } from './entity-path.ts';
import { ABORTED, CANCELLED } from './failures.ts';
import { fireJoin } from './fire-joins.ts';
import { advanceLoop } from './loops.ts';
import { placeInstance, placeTokens } from './place-tokens.ts';
import { routeStep } from './route-step.ts';
import type { RunFailure, StepState } from './state.ts';
import { hasEnded } from './step-state.ts';
import { closeWaits, failByVerdict } from './waits.ts';

/**
 * Everything that follows from the state by itself: ended steps are routed, tokens placed, joins fired, and a run in
 * which nothing is left to do ends. While a run is paused nothing follows; it is decided right after RunResumed.
 */
export function advance(d: Deciding): void {
  while (nextConsequence(d));
}

/** Decides one more thing. False: nothing follows any more. */
function nextConsequence(d: Deciding): boolean {
  const { draft } = d;
  const { status, cancel, failure } = draft.run;
  if (status === null || isTerminal(status)) return false;
  if (cancel) return stopForCancel(d);
  if (status !== 'RUNNING') return false;
  if (failure) return stopForFailure(d, failure);
  if (placeNext(d)) return true;
  const step = firstUnrouted(d);
  if (step) {
    routeStep(d, step);
    return true;
  }
  if (fireJoin(d)) return true;
  if (draft.unended > 0) return false;
  if (runFinalStep(d) || draft.run.failure) return true;
  complete(d);
  return false;
}

/** What a pause held back: loops that could go on, and steps that a person decided against. Scans what is open. */
export function catchUp(d: Deciding): void {
  if (d.draft.run.status !== 'RUNNING') return;
  for (const step of inOrder(d.draft.open.values())) {
    if (step.status !== 'RUNNING') continue;
    failByVerdict(d, step.stepId);
    if (d.draft.loops.has(step.stepId)) advanceLoop(d, step.stepId);
  }
}

const inOrder = (steps: StepState[]): StepState[] => steps.sort((a, b) => a.ordinal - b.ordinal);

function placeNext(d: Deciding): boolean {
  const { draft, plan } = d;
  if (draft.tokens.size === 0) return false;
  for (const [name, tokens] of draft.tokens.entries()) {
    if (plan.joinNames.has(name) || name === plan.plan.finalStep) continue;
    const token = tokens[0];
    if (!token) continue;
    placeTokens(d, name, [token]);
    return true;
  }
  return false;
}

/** The one that was scheduled first: the order does not depend on who finished faster during a pause. */
function firstUnrouted(d: Deciding): StepState | undefined {
  const { draft } = d;
  if (draft.unrouted.size === 0) return undefined;
  let first: StepState | undefined;
  for (const [stepId] of draft.unrouted.entries()) {
    const step = draft.open.get(stepId);
    if (step && (!first || step.ordinal < first.ordinal)) first = step;
  }
  return first;
}

/** The final step runs once, when no token is left, whatever happened before; tokens that came to it are its arrivals. */
function runFinalStep(d: Deciding): boolean {
  const { finalStep } = d.plan.plan;
  if (finalStep === undefined || (d.draft.names.get(finalStep)?.instances ?? 0) > 0) return false;
  // It cannot be placed if the run has no room left for it, or if its own admission is what failed.
  const { failure } = d.draft.run;
  if (failure && (failure.error.code === 'STEP_LIMIT' || stepNameOf(failure.stepId ?? '') === finalStep)) return false;
  const arrivals = d.draft.tokens.get(finalStep);
  if (arrivals) placeTokens(d, finalStep, arrivals);
  else placeInstance(d, finalStep, { kind: 'final' }, [], undefined);
  return (d.draft.names.get(finalStep)?.instances ?? 0) > 0;
}

function complete(d: Deciding): void {
  const { lastResult, handled } = d.draft;
  d.emit('RunCompleted', {
    payload: {
      completedAt: d.now,
      ...(lastResult === undefined ? {} : { result: lastResult }),
      ...(handled.length === 0 ? {} : { handledFailures: [...handled] }),
    },
  });
}

function stopForCancel(d: Deciding): boolean {
  stop(d, CANCELLED, true, undefined);
  if (d.draft.unended > 0) return false;
  cancelled(d);
  return false;
}

/** The run fails after the last step in flight ended and the final step ran. */
function stopForFailure(d: Deciding, { mode }: RunFailure): boolean {
  const { draft } = d;
  const { finalStep } = d.plan.plan;
  stop(d, ABORTED, mode === 'fail_fast', finalStep);
  if (draft.unended > 0) return false;
  // The final step may be retried by its policy even now.
  const final = finalStep === undefined ? undefined : draft.open.get(finalStep);
  if (final && draft.unrouted.has(final.stepId)) {
    routeStep(d, final);
    return true;
  }
  if (runFinalStep(d)) return true;
  fail(d);
  return false;
}

/**
 * Nothing new is scheduled. What has not begun is skipped, what is parked ends at once, what a worker holds ends by
 * itself (or when the grace is over).
 */
function stop(d: Deciding, error: ErrorInfo, abort: boolean, spared: string | undefined): void {
  if (d.draft.unended === 0) return;
  for (const step of inOrder(d.draft.open.values())) {
    if (hasEnded(step) || step.name === spared) continue;
    if (step.status === 'PENDING') {
      d.emit('StepSkipped', {
        stepId: step.stepId,
        attempt: step.attempt,
        payload: { reason: error.message, code: 'CANCELLED' },
      });
    } else if (abort) endIdle(d, step, error);
  }
}

export function cancelled(d: Deciding): void {
  const { signalId, by, reason } = d.draft.run.cancel ?? {};
  d.emit('RunCancelled', {
    payload: {
      completedAt: d.now,
      ...(signalId === undefined ? {} : { signalId }),
      ...(by === undefined ? {} : { by }),
      ...(reason === undefined ? {} : { reason }),
    },
  });
}

/** Ends a running step that no worker holds: one that is parked, or a loop none of whose iterations is under way. */
function endIdle(d: Deciding, step: StepState, error: ErrorInfo): void {
  const { draft } = d;
  const loop = draft.loops.get(step.stepId);
  if (loop) {
    for (const [index, entry] of loop.open.entries().sort(([a], [b]) => a - b)) {
      if (entry.started && entry.openWaits === 0 && !entry.eligible) continue;
      closeWaits(d, step.stepId, index);
      d.emit('LoopIterationFailed', {
        stepId: step.stepId,
        entity: unitEntity(step.stepId, index),
        attempt: step.attempt,
        payload: { index, error },
      });
    }
    if ((draft.loops.get(step.stepId)?.open.size ?? 0) > 0) return;
  } else if (step.openWaits === 0 && !step.eligible) return;
  closeWaits(d, step.stepId, undefined);
  failStep(d, step, error);
}

/** Ends everything that is still running, whoever holds it: the grace is over. */
export function endAll(d: Deciding): void {
  const error = d.draft.run.cancel ? CANCELLED : ABORTED;
  for (const step of inOrder(d.draft.open.values())) {
    if (step.status !== 'RUNNING') continue;
    if (!d.draft.run.cancel && step.name === d.plan.plan.finalStep) continue;
    endRunning(d, step, error);
  }
}

/** Ends every open step, because nobody can go on with the run; the final step too, which nobody could run. */
export function abandonAll(d: Deciding, error: ErrorInfo): void {
  for (const step of inOrder(d.draft.open.values())) {
    if (hasEnded(step)) continue;
    if (step.status === 'RUNNING') endRunning(d, step, error);
    else {
      const payload = { reason: error.message, code: 'CANCELLED' };
      d.emit('StepSkipped', { stepId: step.stepId, attempt: step.attempt, payload });
    }
  }
}

function endRunning(d: Deciding, step: StepState, error: ErrorInfo): void {
  const loop = d.draft.loops.get(step.stepId);
  for (const [index] of (loop?.open.entries() ?? []).sort(([a], [b]) => a - b)) {
    closeWaits(d, step.stepId, index);
    d.emit('LoopIterationFailed', {
      stepId: step.stepId,
      entity: unitEntity(step.stepId, index),
      attempt: step.attempt,
      payload: { index, error },
    });
  }
  closeWaits(d, step.stepId, undefined);
  failStep(d, step, error);
}

function failStep(d: Deciding, step: StepState, error: ErrorInfo): void {
  d.emit('StepFailed', { stepId: step.stepId, attempt: step.attempt, payload: { error } });
}

function fail(d: Deciding): void {
  const { failure } = d.draft.run;
  if (!failure) return;
  const cause = { ...(failure.stepId === undefined ? {} : { stepId: failure.stepId }), error: failure.error };
  d.emit('RunFailed', {
    payload: {
      completedAt: d.now,
      error: failure.error,
      rootCause: cause,
      failedSteps: d.draft.failedSteps,
    },
  });
}

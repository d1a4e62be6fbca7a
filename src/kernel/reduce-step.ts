import { CATALOGUE } from '../contracts/catalogue.ts';
import type { StepMove, StepStatus } from '../contracts/states.ts';
import type { StoredValue } from '../contracts/values.ts';
import { instanceNumberOf, stepNameOf } from './entity-path.ts';
import { mergeLineages } from './lineage.ts';
import {
  artifactsOf,
  countOf,
  countsOf,
  ERASED_ERROR,
  errorOf,
  isObject,
  type JsonObject,
  objectOf,
  storedValueOf,
  textOf,
} from './payload-reader.ts';
import { type Arrival, type CarriedLoop, type Cause, includesName, type LoopEnd, type StepState } from './state.ts';
import {
  boundaryOf,
  copyStep,
  findStep,
  finishedOf,
  hasEnded,
  newStep,
  nextAttemptOf,
  type StepDraft,
  some,
} from './step-state.ts';
import { leave, selectedOf, takeTokens } from './tokens.ts';
import { type Draft, type KernelEvent, noteErased, type Reducer, refuse, type Work } from './work.ts';

/** One bit per event that a step attempt takes once. */
export const SEEN = {
  StepScheduled: 1,
  StepStarted: 2,
  StepCompleted: 4,
  StepFailed: 8,
  StepSkipped: 16,
  StepCarried: 32,
  NextEvaluated: 64,
  LoopStarted: 128,
  LoopDone: 256,
} as const;

type Change = (work: Work, step: StepDraft, event: KernelEvent, payload: JsonObject) => void;

/**
 * A move of one (stepId, logicalAttemptId), validated against the catalogue. An attempt that nobody scheduled is
 * PENDING: logs of the plain lifecycle contract have no StepScheduled.
 */
type MoveType = 'StepScheduled' | 'StepStarted' | 'StepCompleted' | 'StepFailed' | 'StepSkipped';

function moves(type: MoveType, change: Change): Reducer {
  const { from, to }: StepMove = CATALOGUE[type].stepMove;
  const bit = SEEN[type];
  return (work, event) => {
    const { draft } = work;
    const { stepId, logicalAttemptId } = event;
    if (stepId === undefined) return;
    const known = findStep(draft, stepId);
    let step: StepDraft;
    if (known === undefined) {
      if (wasDropped(draft, stepId)) return;
      if (from !== 'PENDING') return refuse(work, event, 'PENDING', to);
      step = newInstance(work, stepId, logicalAttemptId);
    } else {
      if (isDuplicate(known, logicalAttemptId, bit)) return;
      const prior = statusOfAttempt(known, logicalAttemptId);
      if (prior !== from) return refuse(work, event, prior, to);
      step = logicalAttemptId > known.attempt ? nextAttempt(work, known, logicalAttemptId) : copyStep(known);
    }
    step.status = to;
    step.seen |= bit;
    change(work, step, event, objectOf(event.payload));
    draft.open = draft.open.set(stepId, step, work.owner);
  };
}

/** An engine's state forgets instances whose token went on; what comes for one of them later changes nothing. */
function wasDropped(draft: Draft, stepId: string): boolean {
  if (draft.retention.keepFinished) return false;
  return instanceNumberOf(stepId) <= (draft.names.get(stepNameOf(stepId))?.instances ?? 0);
}

export function isDuplicate(step: StepState, attempt: number, bit: number): boolean {
  const seen = attempt === step.attempt ? step.seen : (step.seenBefore?.[attempt] ?? 0);
  return (seen & bit) !== 0;
}

/** The state of one attempt. An attempt that a later one replaced takes no more events. */
export function statusOfAttempt(step: StepState | undefined, attempt: number): StepStatus | 'SUPERSEDED' {
  if (step === undefined || attempt > step.attempt) return 'PENDING';
  return attempt < step.attempt ? 'SUPERSEDED' : step.status;
}

function newInstance(work: Work, stepId: string, attempt: number): StepDraft {
  const { draft, owner } = work;
  const name = stepNameOf(stepId);
  const number = instanceNumberOf(stepId);
  const known = draft.names.get(name);
  const instances = known && known.instances > number ? known.instances : number;
  draft.names = draft.names.set(name, { instances, live: (known?.live ?? 0) + 1, finished: known?.finished }, owner);
  draft.unended++;
  return newStep(stepId, name, ++draft.ordinal, attempt);
}

function nextAttempt(work: Work, step: StepState, attempt: number): StepDraft {
  const { draft, owner } = work;
  const { stepId, name } = step;
  if (hasEnded(step)) draft.unended++;
  if (step.status === 'FAILED') draft.failedSteps--;
  draft.unrouted = draft.unrouted.delete(stepId, owner);
  draft.loops = draft.loops.delete(stepId, owner);
  if (draft.done.has(stepId)) {
    const known = draft.names.get(name);
    draft.done = draft.done.delete(stepId, owner);
    if (known) draft.names = draft.names.set(name, { ...known, live: known.live + 1 }, owner);
  }
  if (draft.run.failure?.stepId === stepId) {
    const { failure: _resolved, ...run } = draft.run;
    draft.run = run;
  }
  return nextAttemptOf(step, attempt);
}

function scheduled(work: Work, step: StepDraft, event: KernelEvent, payload: JsonObject): void {
  if (event.erased) noteErased(work, event);
  begin(work, step, payload);
  step.stepIndex = countOf(payload['stepIndex']) ?? step.stepIndex;
  step.tool = textOf(payload['tool']) ?? step.tool;
  step.dueAt = textOf(payload['dueAt']);
  step.timeoutMs = countOf(payload['timeoutMs']) ?? step.timeoutMs;
  step.carried = carriedLoopOf(payload['loop']) ?? step.carried;
}

/** Takes the tokens that the cause names, and with them their ancestry. */
function begin(work: Work, step: StepDraft, payload: JsonObject): void {
  const cause = causeOf(payload['cause']);
  if (cause === undefined) return;
  if (isObject(payload['args'])) step.args = payload['args'];
  if (cause.kind === 'arc') {
    step.cause = cause;
    step.lineage = mergeLineages(takeTokens(work, step.name, cause));
    return;
  }
  // A repeated attempt stands where the first one stood; its own cause says only that it is a repetition.
  step.cause ??= cause;
}

function started(_work: Work, step: StepDraft, event: KernelEvent, payload: JsonObject): void {
  step.delayed = undefined;
  step.startedAt = textOf(payload['startedAt']) ?? event.emittedAt;
  step.engineAttempt = event.engineAttemptId;
  step.leaseOwner = textOf(payload['leaseOwner']);
  step.tool = textOf(payload['tool']) ?? step.tool;
}

function completed(work: Work, step: StepDraft, event: KernelEvent, payload: JsonObject): void {
  const result = storedValueOf(payload['result']);
  if (result !== undefined) {
    work.draft.lastResult = result;
    step.result = result;
  }
  step.taskResults = taskResultsOf(payload['taskResults']);
  end(work, step, event, payload);
}

function failed(work: Work, step: StepDraft, event: KernelEvent, payload: JsonObject): void {
  work.draft.failedSteps++;
  step.error = event.erased ? ERASED_ERROR : errorOf(payload['error']);
  step.result = storedValueOf(payload['result']);
  end(work, step, event, payload);
}

function skipped(work: Work, step: StepDraft, event: KernelEvent, payload: JsonObject): void {
  begin(work, step, payload);
  step.skipReason = textOf(payload['reason']) ?? '';
  step.skipCode = textOf(payload['code']);
  step.stepIndex = countOf(payload['stepIndex']) ?? step.stepIndex;
  end(work, step, event, payload);
}

/** The instance ended: its arcs are to be evaluated, and templates may read it. */
function end(work: Work, step: StepDraft, event: KernelEvent, payload: JsonObject): void {
  const { draft, owner } = work;
  if (event.erased) noteErased(work, event);
  step.completedAt = textOf(payload['completedAt']) ?? event.emittedAt;
  if (step.status !== 'SKIPPED') {
    step.engineAttempt = event.engineAttemptId ?? step.engineAttempt;
    step.artifacts = artifactsOf(payload['artifacts']);
  }
  step.openWaits = 0;
  step.eligible = false;
  step.verdict = undefined;
  draft.unended--;
  draft.unrouted = draft.unrouted.set(step.stepId, true, owner);
  if (!includesName(draft.retention.results, step.name)) {
    step.result = undefined;
    step.taskResults = undefined;
    return;
  }
  const known = draft.names.get(step.name);
  const number = instanceNumberOf(step.stepId);
  if (!known || (known.finished && known.finished.number > number)) return;
  const { instances, live } = known;
  draft.names = draft.names.set(step.name, { instances, live, finished: finishedOf(step, number) }, owner);
}

/** A step that an earlier run completed: it is there for templates and joins, and never ran here. */
function carried(work: Work, event: KernelEvent): void {
  const { draft, owner } = work;
  const { stepId } = event;
  if (stepId === undefined || findStep(draft, stepId) || wasDropped(draft, stepId)) return;
  const payload = objectOf(event.payload);
  const { status } = payload;
  const step = newInstance(work, stepId, event.logicalAttemptId);
  begin(work, step, payload);
  step.status = status === 'FAILED' || status === 'SKIPPED' ? status : 'SUCCESS';
  step.seen = SEEN.StepCarried;
  step.result = storedValueOf(payload['result']);
  step.taskResults = taskResultsOf(payload['taskResults']);
  step.loopEnd = loopEndOf(payload['loop']);
  if (step.status === 'FAILED') {
    draft.failedSteps++;
    step.error = errorOf(payload['error']);
  }
  if (step.status === 'SKIPPED') step.skipReason = textOf(payload['skipReason']) ?? '';
  end(work, step, event, payload);
  draft.open = draft.open.set(stepId, step, owner);
  if (step.status === 'SUCCESS') draft.lastResult = step.result ?? draft.lastResult;
  if (payload['unrouted'] === true) return;
  noteHandled(work, step);
  leave(work, step, SEEN.NextEvaluated, selectedOf(payload['tokens']), boundaryOf(step));
}

/** RunCompleted lists so many handled failures, with so much of each message: it must fit into one event. */
const MAX_HANDLED = 500;
const MAX_MESSAGE = 200;

/** The token of a failed step goes on: the plan has handled the failure. */
export function noteHandled({ draft }: Work, { status, stepId, error: met }: StepState): void {
  if (status !== 'FAILED' || !met || draft.handled.length >= MAX_HANDLED) return;
  const error = { ...met, message: met.message.slice(0, MAX_MESSAGE) };
  draft.handled = [...draft.handled, { stepId, error }];
}

/** Held back: the reason is shown until the attempt begins. */
function delayed(work: Work, event: KernelEvent): void {
  const { draft, owner } = work;
  const known = event.stepId === undefined ? undefined : draft.open.get(event.stepId);
  if (known?.status !== 'PENDING' || event.logicalAttemptId !== known.attempt) return;
  const payload = objectOf(event.payload);
  const step = copyStep(known);
  const error = isObject(payload['error']) ? errorOf(payload['error']) : undefined;
  step.delayed = { reason: textOf(payload['reason']) ?? '', ...some('error', error) };
  step.dueAt = textOf(payload['until']) ?? step.dueAt;
  step.waits++;
  draft.open = draft.open.set(step.stepId, step, owner);
}

function causeOf(value: unknown): Cause | undefined {
  const { kind, arrivals } = objectOf(value);
  if (kind === 'arc' && Array.isArray(arrivals)) return { kind, arrivals: arrivals.filter(isArrival) };
  if (kind === 'entry' || kind === 'final' || kind === 'retry' || kind === 'carried' || kind === 'signal')
    return { kind };
  return undefined;
}

function isArrival(value: unknown): value is Arrival {
  return isObject(value) && typeof value['from'] === 'string' && countOf(value['arc']) !== undefined;
}

function taskResultsOf(value: unknown): Record<string, StoredValue> | undefined {
  if (!isObject(value)) return undefined;
  const results: Record<string, StoredValue> = Object.create(null);
  for (const [task, result] of Object.entries(value)) {
    const stored = storedValueOf(result);
    if (stored) results[task] = stored;
  }
  return results;
}

function loopEndOf(value: unknown): LoopEnd | undefined {
  const { count, failed } = objectOf(value);
  if (countOf(count) === undefined) return undefined;
  return { count: count as number, failed: countOf(failed) ?? 0 };
}

function carriedLoopOf(value: unknown): CarriedLoop | undefined {
  if (!isObject(value)) return undefined;
  return {
    finished: countsOf(value['finished']),
    ...some('list', storedValueOf(value['list'])),
    ...some('results', storedValueOf(value['results'])),
  };
}

export const STEP_REDUCERS = {
  StepScheduled: moves('StepScheduled', scheduled),
  StepStarted: moves('StepStarted', started),
  StepCompleted: moves('StepCompleted', completed),
  StepFailed: moves('StepFailed', failed),
  StepSkipped: moves('StepSkipped', skipped),
  StepDelayed: delayed,
  StepCarried: carried,
} as const satisfies Record<string, Reducer>;

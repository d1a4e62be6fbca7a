import { eventRow } from '../contracts/catalogue.ts';
import type { StepMove, StepStatus } from '../contracts/states.ts';
import type { StoredValue } from '../contracts/values.ts';
import { instanceNumberOf, stepNameOf } from './entity-path.ts';
import { lineageAfter, mergeLineages } from './lineage.ts';
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
import {
  type CarriedLoop,
  type Cause,
  type Finished,
  findStep,
  includesName,
  type StepState,
  type Token,
} from './state.ts';
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

const NO_ARTIFACTS = artifactsOf(undefined);

type Change = (work: Work, step: StepState, event: KernelEvent, payload: JsonObject) => StepState;

/**
 * A move of one (stepId, logicalAttemptId), validated against the catalogue. An attempt that nobody scheduled is
 * PENDING: logs of the plain lifecycle contract have no StepScheduled.
 */
function moves(type: keyof typeof SEEN, change: Change): Reducer {
  const move = eventRow(type)?.stepMove as StepMove;
  const bit = SEEN[type];
  return (work, event) => {
    const { draft } = work;
    const { stepId } = event;
    if (stepId === undefined) return;
    const known = findStep(draft, stepId);
    let step: StepState;
    if (known === undefined) {
      if (wasDropped(draft, stepId)) return;
      if (move.from !== 'PENDING') return refuse(work, event, 'PENDING', move.to);
      step = newInstance(work, stepId, event.logicalAttemptId);
    } else {
      if (isDuplicate(known, event.logicalAttemptId, bit)) return;
      const prior = statusOfAttempt(known, event.logicalAttemptId);
      if (prior !== move.from) return refuse(work, event, prior, move.to);
      step = event.logicalAttemptId > known.attempt ? nextAttempt(work, known, event.logicalAttemptId) : known;
    }
    const payload = objectOf(event.payload);
    const changed = change(work, step, event, payload);
    draft.open = draft.open.set(stepId, { ...changed, status: move.to, seen: changed.seen | bit }, work.owner);
  };
}

/** An engine's state forgets instances whose token went on; what comes for one of them later changes nothing. */
function wasDropped(draft: Draft, stepId: string): boolean {
  if (draft.retention.keepFinished) return false;
  return instanceNumberOf(stepId) <= (draft.instances.get(stepNameOf(stepId)) ?? 0);
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

function newInstance(work: Work, stepId: string, attempt: number): StepState {
  const { draft, owner } = work;
  const name = stepNameOf(stepId);
  const number = instanceNumberOf(stepId);
  if (number > (draft.instances.get(name) ?? 0)) draft.instances = draft.instances.set(name, number, owner);
  draft.live = draft.live.set(name, (draft.live.get(name) ?? 0) + 1, owner);
  draft.unended++;
  return {
    stepId,
    name,
    ordinal: ++draft.ordinal,
    status: 'PENDING',
    attempt,
    seen: 0,
    artifacts: NO_ARTIFACTS,
    waits: 0,
    patches: 0,
    openWaits: 0,
    eligible: false,
  };
}

/** The next attempt keeps what the instance is (cause, args, ancestry) and forgets how the last one went. */
function nextAttempt(work: Work, step: StepState, attempt: number): StepState {
  const { draft, owner } = work;
  const ended = step.status !== 'PENDING' && step.status !== 'RUNNING';
  if (ended) draft.unended++;
  if (step.status === 'FAILED') draft.failedSteps--;
  draft.unrouted = draft.unrouted.delete(step.stepId, owner);
  if (draft.done.has(step.stepId)) {
    draft.done = draft.done.delete(step.stepId, owner);
    draft.live = draft.live.set(step.name, (draft.live.get(step.name) ?? 0) + 1, owner);
  }
  if (draft.run.failure?.stepId === step.stepId) {
    const { failure: _resolved, ...run } = draft.run;
    draft.run = run;
  }
  draft.loops = draft.loops.delete(step.stepId, owner);
  const { startedAt, completedAt, error, skipReason, skipCode, result, dueAt, delayed, leaseOwner, ...rest } = step;
  return {
    ...rest,
    attempt,
    status: 'PENDING',
    seen: 0,
    seenBefore: { ...step.seenBefore, [step.attempt]: step.seen },
    artifacts: NO_ARTIFACTS,
    openWaits: 0,
    eligible: false,
  };
}

function scheduled(work: Work, step: StepState, event: KernelEvent, payload: JsonObject): StepState {
  noteErased(work, event);
  const cause = causeOf(payload['cause']);
  const dueAt = textOf(payload['dueAt']);
  const delayed = dueAt !== undefined && cause?.kind === 'retry' ? { reason: 'RETRY' } : undefined;
  const origin = begin(work, step, cause, payload);
  return {
    ...origin,
    ...some('stepIndex', countOf(payload['stepIndex'])),
    ...some('tool', textOf(payload['tool'])),
    ...some('dueAt', dueAt),
    ...some('timeoutMs', countOf(payload['timeoutMs'])),
    ...some('delayed', step.delayed ?? delayed),
    ...some('carried', carriedLoopOf(payload['loop'])),
  };
}

/** Takes the tokens that the cause names, and with them their ancestry. */
function begin(work: Work, step: StepState, cause: Cause | undefined, payload: JsonObject): StepState {
  if (cause === undefined) return step;
  const args = isObject(payload['args']) ? payload['args'] : undefined;
  if (cause.kind === 'final') work.draft.run = { ...work.draft.run, finalStep: step.stepId };
  // A repeated attempt stands where the first one stood; its cause says only that it is a repetition.
  if (cause.kind !== 'arc') return { ...step, cause: step.cause ?? cause, ...some('args', args ?? step.args) };
  const taken = takeTokens(work, step.name, cause);
  return { ...step, cause, ...some('args', args), ...some('lineage', mergeLineages(taken)) };
}

function takeTokens(work: Work, name: string, cause: Cause & { kind: 'arc' }): Token[] {
  const { draft, owner } = work;
  const waiting = draft.tokens.get(name) ?? [];
  const wanted = new Set(cause.arrivals.map(({ from, arc }) => `${arc}>${from}`));
  const taken = waiting.filter((token) => wanted.has(`${token.arc}>${token.from}`));
  const left = waiting.filter((token) => !wanted.has(`${token.arc}>${token.from}`));
  draft.tokens = left.length > 0 ? draft.tokens.set(name, left, owner) : draft.tokens.delete(name, owner);
  return taken;
}

function started(_work: Work, step: StepState, event: KernelEvent, payload: JsonObject): StepState {
  const { delayed: _over, ...rest } = step;
  return {
    ...rest,
    startedAt: textOf(payload['startedAt']) ?? event.emittedAt,
    ...some('engineAttempt', event.engineAttemptId),
    ...some('leaseOwner', textOf(payload['leaseOwner'])),
    ...some('tool', textOf(payload['tool']) ?? step.tool),
  };
}

function completed(work: Work, step: StepState, event: KernelEvent, payload: JsonObject): StepState {
  noteErased(work, event);
  const result = storedValueOf(payload['result']);
  if (result !== undefined) work.draft.lastResult = result;
  const after: StepState = {
    ...step,
    completedAt: textOf(payload['completedAt']) ?? event.emittedAt,
    ...some('engineAttempt', event.engineAttemptId ?? step.engineAttempt),
    artifacts: artifactsOf(payload['artifacts']),
    openWaits: 0,
    eligible: false,
  };
  return end(work, after, 'SUCCESS', result);
}

function failed(work: Work, step: StepState, event: KernelEvent, payload: JsonObject): StepState {
  noteErased(work, event);
  work.draft.failedSteps++;
  const after: StepState = {
    ...step,
    completedAt: textOf(payload['completedAt']) ?? event.emittedAt,
    ...some('engineAttempt', event.engineAttemptId ?? step.engineAttempt),
    artifacts: artifactsOf(payload['artifacts']),
    error: event.erased ? ERASED_ERROR : errorOf(payload['error']),
    openWaits: 0,
    eligible: false,
  };
  return end(work, after, 'FAILED', storedValueOf(payload['result']));
}

function skipped(work: Work, step: StepState, event: KernelEvent, payload: JsonObject): StepState {
  noteErased(work, event);
  const origin = begin(work, step, causeOf(payload['cause']), payload);
  const after: StepState = {
    ...origin,
    completedAt: event.emittedAt,
    skipReason: textOf(payload['reason']) ?? '',
    ...some('skipCode', textOf(payload['code'])),
    ...some('stepIndex', countOf(payload['stepIndex']) ?? origin.stepIndex),
  };
  return end(work, after, 'SKIPPED', undefined);
}

/** The instance ended: its arcs are to be evaluated, and templates may read it. */
function end(work: Work, step: StepState, status: Finished['status'], result: StoredValue | undefined): StepState {
  const { draft, owner } = work;
  draft.unended--;
  draft.unrouted = draft.unrouted.set(step.stepId, true, owner);
  if (!includesName(draft.retention.results, step.name)) return step;
  const ended = result === undefined ? step : { ...step, result };
  remember(work, ended, status);
  return ended;
}

function remember(work: Work, step: StepState, status: Finished['status']): void {
  const { draft, owner } = work;
  const known = draft.finished.get(step.name);
  const finished = finishedOf(step, status);
  if (known && known.number > finished.number) return;
  draft.finished = draft.finished.set(step.name, finished, owner);
}

export function finishedOf(step: StepState, status: Finished['status']): Finished {
  return {
    stepId: step.stepId,
    number: instanceNumberOf(step.stepId),
    status,
    ...some('result', step.result),
    ...some('error', step.error),
    ...some('reason', step.skipReason),
  };
}

/** A step that an earlier run completed: it is there for templates and joins, and never ran here. */
function carried(work: Work, event: KernelEvent): void {
  const { draft, owner } = work;
  const { stepId } = event;
  noteErased(work, event);
  if (stepId === undefined || findStep(draft, stepId) || wasDropped(draft, stepId)) return;
  const payload = objectOf(event.payload);
  const status = payload['status'] === 'FAILED' || payload['status'] === 'SKIPPED' ? payload['status'] : 'SUCCESS';
  const fresh = newInstance(work, stepId, event.logicalAttemptId);
  const begun = begin(work, fresh, causeOf(payload['cause']), payload);
  const skipReason = textOf(payload['skipReason']);
  const result = storedValueOf(payload['result']);
  const step: StepState = {
    ...begun,
    status,
    seen: SEEN.StepCarried,
    completedAt: event.emittedAt,
    artifacts: artifactsOf(payload['artifacts']),
    ...(isObject(payload['error']) ? { error: errorOf(payload['error']) } : {}),
    ...some('skipReason', skipReason),
  };
  if (status === 'FAILED') draft.failedSteps++;
  const ended = end(work, step, status, result);
  draft.open = draft.open.set(stepId, ended, owner);
  if (payload['unrouted'] !== true) leave(work, ended, tokensOf(payload['tokens']));
}

/** The instance's token goes on: tokens are put on their way, and the instance is kept or dropped. */
export function leave(
  work: Work,
  step: StepState,
  selected: readonly { step: string; arc: number; args?: JsonObject }[],
): void {
  const { draft, owner } = work;
  const { name, stepId } = step;
  if (selected.length > 0) {
    const self = includesName(draft.retention.lineage, name)
      ? finishedOf(step, step.status as Finished['status'])
      : undefined;
    const lineage = lineageAfter(draft.retention.lineage, step.lineage, self);
    for (const { step: to, arc, args } of selected) {
      const token: Token = { to, from: stepId, arc, ...some('args', args), ...some('lineage', lineage) };
      draft.tokens = draft.tokens.set(to, [...(draft.tokens.get(to) ?? []), token], owner);
    }
  }
  draft.unrouted = draft.unrouted.delete(stepId, owner);
  draft.open = draft.open.delete(stepId, owner);
  if (draft.loops.size > 0) draft.loops = draft.loops.delete(stepId, owner);
  const live = (draft.live.get(name) ?? 1) - 1;
  draft.live = live > 0 ? draft.live.set(name, live, owner) : draft.live.delete(name, owner);
  if (draft.retention.keepFinished) {
    const { lineage: _dropped, ...kept } = step;
    draft.done = draft.done.set(stepId, { ...kept, seen: step.seen | SEEN.NextEvaluated }, owner);
  }
}

export function tokensOf(value: unknown): { step: string; arc: number; args?: JsonObject }[] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((item) => {
    const { step, arc, args } = objectOf(item);
    if (typeof step !== 'string') return [];
    return [{ step, arc: countOf(arc) ?? 0, ...(isObject(args) ? { args } : {}) }];
  });
}

function causeOf(value: unknown): Cause | undefined {
  const { kind, arrivals } = objectOf(value);
  if (kind === 'entry' || kind === 'final' || kind === 'retry' || kind === 'carried' || kind === 'signal')
    return { kind };
  if (kind !== 'arc' || !Array.isArray(arrivals)) return undefined;
  return {
    kind,
    arrivals: arrivals.flatMap((item) => {
      const { from, arc } = objectOf(item);
      return typeof from === 'string' ? [{ from, arc: countOf(arc) ?? 0 }] : [];
    }),
  };
}

function carriedLoopOf(value: unknown): CarriedLoop | undefined {
  if (!isObject(value)) return undefined;
  return {
    finished: countsOf(value['finished']),
    ...some('list', storedValueOf(value['list'])),
    ...some('results', storedValueOf(value['results'])),
  };
}

/** A property only if there is a value: an absent field and an undefined one are not the same in a snapshot. */
export function some<K extends string, V>(key: K, value: V | undefined): { [P in K]?: V } {
  return value === undefined ? {} : ({ [key]: value } as { [P in K]?: V });
}

/** Held back: the reason is shown until the attempt begins. */
function delayed(work: Work, event: KernelEvent): void {
  const { draft, owner } = work;
  const step = event.stepId === undefined ? undefined : draft.open.get(event.stepId);
  if (!step || step.status === 'RUNNING') return;
  const payload = objectOf(event.payload);
  const error = isObject(payload['error']) ? errorOf(payload['error']) : undefined;
  const reason = textOf(payload['reason']) ?? '';
  draft.open = draft.open.set(step.stepId, { ...step, delayed: { reason, ...some('error', error) } }, owner);
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

import { artifactsOf } from './payload-reader.ts';
import type { Finished, RunState, StepState } from './state.ts';

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** A copy that the reducer may change before it puts it into the draft. */
export type StepDraft = Mutable<StepState>;

const NO_ARTIFACTS = artifactsOf(undefined);

export function newStep(stepId: string, name: string, ordinal: number, attempt: number): StepDraft {
  return {
    stepId,
    name,
    ordinal,
    status: 'PENDING',
    attempt,
    seen: 0,
    seenBefore: undefined,
    engineAttempt: undefined,
    startedAt: undefined,
    completedAt: undefined,
    artifacts: NO_ARTIFACTS,
    error: undefined,
    skipReason: undefined,
    skipCode: undefined,
    result: undefined,
    taskResults: undefined,
    loopEnd: undefined,
    cause: undefined,
    args: undefined,
    lineage: undefined,
    stepIndex: undefined,
    tool: undefined,
    leaseOwner: undefined,
    dueAt: undefined,
    timeoutMs: undefined,
    delayed: undefined,
    carried: undefined,
    waits: 0,
    patches: 0,
    openWaits: 0,
    eligible: false,
    verdict: undefined,
  };
}

/** Written out, because a spread of so many fields is several times slower. */
export function copyStep(step: StepState): StepDraft {
  return {
    stepId: step.stepId,
    name: step.name,
    ordinal: step.ordinal,
    status: step.status,
    attempt: step.attempt,
    seen: step.seen,
    seenBefore: step.seenBefore,
    engineAttempt: step.engineAttempt,
    startedAt: step.startedAt,
    completedAt: step.completedAt,
    artifacts: step.artifacts,
    error: step.error,
    skipReason: step.skipReason,
    skipCode: step.skipCode,
    result: step.result,
    taskResults: step.taskResults,
    loopEnd: step.loopEnd,
    cause: step.cause,
    args: step.args,
    lineage: step.lineage,
    stepIndex: step.stepIndex,
    tool: step.tool,
    leaseOwner: step.leaseOwner,
    dueAt: step.dueAt,
    timeoutMs: step.timeoutMs,
    delayed: step.delayed,
    carried: step.carried,
    waits: step.waits,
    patches: step.patches,
    openWaits: step.openWaits,
    eligible: step.eligible,
    verdict: step.verdict,
  };
}

/** The next attempt keeps what the instance is (cause, args, ancestry) and forgets how the last one went. */
export function nextAttemptOf(step: StepState, attempt: number): StepDraft {
  const next = newStep(step.stepId, step.name, step.ordinal, attempt);
  next.seenBefore = { ...step.seenBefore, [step.attempt]: step.seen };
  next.cause = step.cause;
  next.args = step.args;
  next.lineage = step.lineage;
  next.stepIndex = step.stepIndex;
  next.tool = step.tool;
  next.timeoutMs = step.timeoutMs;
  next.carried = step.carried;
  next.waits = step.waits;
  next.patches = step.patches;
  return next;
}

export function hasEnded(step: StepState): boolean {
  return step.status !== 'PENDING' && step.status !== 'RUNNING';
}

/** An ended instance as templates see it. */
export function finishedOf(step: StepState, number: number): Finished {
  return {
    stepId: step.stepId,
    number,
    status: step.status as Finished['status'],
    ...some('result', step.result),
    ...some('error', step.error),
    ...some('reason', step.skipReason),
    ...some('taskResults', step.taskResults),
    ...some('loop', step.loopEnd),
  };
}

/** A property only if there is a value: in a snapshot an absent field and an undefined one are not the same. */
export function some<K extends string, V>(key: K, value: V | undefined): { [P in K]?: V } {
  return value === undefined ? {} : ({ [key]: value } as { [P in K]?: V });
}

/** The step instance, whether its token went on or not. */
export function findStep(state: RunState, stepId: string): StepState | undefined {
  return state.open.get(stepId) ?? state.done.get(stepId);
}

/** The name of the boundary at which arcs are evaluated. */
export function boundaryOf(step: StepState): string {
  if (step.status === 'SKIPPED') return 'step.skipped';
  if (step.status === 'FAILED') return 'step.failed';
  return step.loopEnd ? 'loop.done' : 'step.done';
}

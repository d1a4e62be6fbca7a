import type { RunSnapshot, StepSnapshot } from '../contracts/snapshot.ts';
import type { ArtifactRef } from '../contracts/values.ts';
import { deepFreeze } from '../lib/deep-freeze.ts';
import type { RunState, StepState } from './state.ts';
import { some } from './step-state.ts';

/**
 * The state as people see it: a frozen plain value that shares nothing with the state. An engine's state, which drops
 * finished steps, shows only the open ones.
 */
export function toSnapshot(state: RunState, metadata: { readonly stale?: boolean } = {}): RunSnapshot {
  const { run } = state;
  const steps = allSteps(state).map(stepSnapshot);
  const duration = durationOf(run.startedAt, run.completedAt);
  const snapshot: RunSnapshot = {
    runId: state.runId,
    status: run.status ?? 'PENDING',
    lastEventSeq: state.lastEventSeq,
    steps,
    artifacts: run.status === 'COMPLETED' ? union(steps, run.artifacts) : [],
    ...some('startedAt', run.startedAt),
    ...some('completedAt', run.completedAt),
    ...some('totalDurationMs', duration),
    ...some('engineRunRef', run.engineRunRef && { ...run.engineRunRef }),
    failedSteps: state.failedSteps,
    ...some('rootCause', run.rootCause && { ...run.rootCause, error: { ...run.rootCause.error } }),
    metadata: { inconsistent: state.inconsistent, stale: metadata.stale ?? false },
  };
  return deepFreeze(snapshot);
}

/** Every instance that the state knows, in the order in which the log first named it. */
export function allSteps(state: RunState): StepState[] {
  return [...state.done.values(), ...state.open.values()].sort((a, b) => a.ordinal - b.ordinal);
}

function stepSnapshot(step: StepState): StepSnapshot {
  return {
    stepId: step.stepId,
    status: step.status,
    logicalAttemptId: step.attempt,
    ...some('engineAttemptId', step.engineAttempt),
    ...some('startedAt', step.startedAt),
    ...some('completedAt', step.completedAt),
    artifacts: step.artifacts.map((artifact) => ({ ...artifact })),
    ...some('error', step.error && { ...step.error }),
    ...some('skipReason', step.skipReason),
  };
}

function union(steps: readonly StepSnapshot[], own: readonly ArtifactRef[]): ArtifactRef[] {
  const byUri = new Map<string, ArtifactRef>();
  for (const artifact of [...steps.flatMap((step) => step.artifacts), ...own]) {
    if (!byUri.has(artifact.uri)) byUri.set(artifact.uri, { ...artifact });
  }
  return [...byUri.values()];
}

function durationOf(from: string | undefined, to: string | undefined): number | undefined {
  if (from === undefined || to === undefined) return undefined;
  const duration = Date.parse(to) - Date.parse(from);
  return Number.isNaN(duration) ? undefined : duration;
}

/** How people count: the first attempt is the step itself, the second is its first retry. */
export function attemptLabel(logicalAttemptId: number): string {
  return logicalAttemptId <= 1 ? '' : `Retry #${logicalAttemptId - 1}`;
}

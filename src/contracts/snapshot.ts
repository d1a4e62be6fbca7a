import Type, { type Static } from 'typebox';
import { Attempt, Count, KeyPart, Text, UtcTime } from './primitives.ts';
import { RUN_STATUSES, STEP_STATUSES } from './states.ts';
import { ArtifactRef, closed, EngineRunRef, ErrorInfo } from './values.ts';

const o = Type.Optional;

export const StepSnapshot = closed({
  stepId: KeyPart,
  status: Type.Enum([...STEP_STATUSES]),
  logicalAttemptId: Attempt,
  engineAttemptId: o(Attempt),
  startedAt: o(UtcTime),
  completedAt: o(UtcTime),
  artifacts: Type.Array(ArtifactRef),
  error: o(ErrorInfo),
  skipReason: o(Text),
});
export type StepSnapshot = Static<typeof StepSnapshot>;

/** The state of a run as people and the UI see it: a view of the fold, never stored as a fact. */
export const RunSnapshot = closed({
  runId: KeyPart,
  status: Type.Enum([...RUN_STATUSES]),
  lastEventSeq: Count,
  steps: Type.Array(StepSnapshot),
  artifacts: Type.Array(ArtifactRef),
  startedAt: o(UtcTime),
  completedAt: o(UtcTime),
  totalDurationMs: o(Type.Number()),
  engineRunRef: o(EngineRunRef),
  failedSteps: Count,
  rootCause: o(closed({ stepId: o(KeyPart), error: ErrorInfo })),
  metadata: closed({ inconsistent: Type.Boolean(), stale: Type.Boolean() }),
});
export type RunSnapshot = Static<typeof RunSnapshot>;

/** The answer of getRunStatus. An unknown substatus is shown as it is. */
export const RunStatusSnapshot = closed({
  runId: KeyPart,
  status: Type.Enum([...RUN_STATUSES]),
  substatus: o(Type.String({ minLength: 1, maxLength: 128 })),
  message: o(Text),
  startedAt: o(UtcTime),
  completedAt: o(UtcTime),
});
export type RunStatusSnapshot = Static<typeof RunStatusSnapshot>;

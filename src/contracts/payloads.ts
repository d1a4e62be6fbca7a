import Type from 'typebox';
import { Attempt, Count, Id, Json, JsonObject, KeyPart, Sha256Hex, Text, UtcTime } from './primitives.ts';
import {
  ArtifactRef,
  closed,
  EngineRunRef,
  EngineType,
  ErrorInfo,
  EventContext,
  Outcome,
  PlanRef,
  StoredValue,
  TRIGGER_SOURCES,
} from './values.ts';

/** The payload of every event type, in the order of the catalogue. Closed on write; readers accept more. */
const o = Type.Optional;
const artifacts = o(Type.Array(ArtifactRef, { maxItems: 1000 }));
const reason = o(Text);
const index = Count;

/** A producer that found its own next move invalid says so with these four, and stops. */
const invalidTransition = {
  invalidTransitionDetected: o(Type.Literal(true)),
  expectedState: o(Type.String()),
  actualState: o(Type.String()),
  attemptedEventType: o(Type.String()),
};

const bySignal = { reason, signalId: o(Id), by: o(Id) };

export const PlaybookExecutionRequested = closed({
  planRef: PlanRef,
  context: EventContext,
  workload: o(StoredValue),
  triggerType: o(Type.Enum([...TRIGGER_SOURCES])),
  triggerRef: o(Id),
  runRequestId: o(Id),
  parentRunId: o(KeyPart),
  parentStepId: o(KeyPart),
  parentEntity: o(KeyPart),
  retryOf: o(KeyPart),
  rootRunId: o(KeyPart),
  fromStep: o(Id),
});
export const PlaybookRequestEvaluated = closed({
  decision: Type.Enum(['accept', 'queue', 'delay', 'reject']),
  reason,
  notBefore: o(UtcTime),
  report: o(JsonObject),
  /** The plan has to be approved before the run may start. */
  gate: o(Type.Literal('approval')),
});
export const RunQueued = closed({ reason, position: o(Count) });
export const RunApproved = closed({ approvedBy: o(Id), approvalId: o(Id), reason });
export const RunStarted = closed({
  status: Type.Literal('RUNNING'),
  engineRunRef: EngineRunRef,
  engineType: EngineType,
  planRef: PlanRef,
  context: EventContext,
  startedAt: UtcTime,
  degraded: o(Type.Boolean()),
  warnings: o(Type.Array(closed({ code: Id, message: Text }), { maxItems: 1000 })),
  validationReport: o(Type.Union([ArtifactRef, JsonObject])),
});
export const RunPaused = closed(bySignal);
export const RunResumed = closed(bySignal);
export const RunCompleted = closed({
  completedAt: o(UtcTime),
  artifacts,
  result: o(StoredValue),
  handledFailures: o(Type.Array(closed({ stepId: KeyPart, error: ErrorInfo }), { maxItems: 1000 })),
});
export const RunFailed = closed({
  error: o(ErrorInfo),
  rootCause: o(closed({ stepId: o(KeyPart), error: ErrorInfo })),
  failedSteps: o(Count),
  completedAt: o(UtcTime),
  ...invalidTransition,
});
export const RunCancelled = closed({ ...bySignal, completedAt: o(UtcTime) });
export const PlaybookProcessed = closed({ bundle: ArtifactRef });
export const PayloadErased = closed({
  records: Type.Array(closed({ runSeq: Type.Integer({ minimum: 1 }), payloadDigest: Sha256Hex }), {
    minItems: 1,
    maxItems: 2000,
  }),
  reason: Text,
  by: o(Id),
});
export const AlertRaised = closed({
  code: Id,
  severity: Type.Enum(['P1', 'P2', 'P3']),
  message: Text,
  details: o(JsonObject),
});
export const SignalAccepted = closed({
  signalId: Id,
  signalType: Id,
  by: o(Id),
  role: o(Id),
  stepId: o(KeyPart),
  parameters: o(JsonObject),
  decision: o(JsonObject),
});
export const SignalRejected = closed({
  signalId: Id,
  signalType: Id,
  by: o(Id),
  role: o(Id),
  stepId: o(KeyPart),
  rejectedBy: Type.Enum(['authorization', 'validation']),
  code: Id,
  reason: Text,
});
/** Why a step instance exists. An arc names the instances whose tokens it took, in plan order. */
const Cause = Type.Union([
  closed({ kind: Type.Enum(['entry', 'final', 'retry', 'carried', 'signal']) }),
  closed({
    kind: Type.Literal('arc'),
    arrivals: Type.Array(closed({ from: KeyPart, arc: Count }), { minItems: 1, maxItems: 100_000 }),
  }),
]);
/** What an earlier run of this loop has finished already: its indexes, its list and the results by index. */
const CarriedLoop = closed({ finished: Type.Array(Count), list: o(StoredValue), results: o(StoredValue) });

export const StepScheduled = closed({
  step: o(Id),
  stepIndex: o(Count),
  tool: o(Id),
  cause: o(Cause),
  args: o(JsonObject),
  dueAt: o(UtcTime),
  timeoutMs: o(Count),
  loop: o(CarriedLoop),
});
export const StepStarted = closed({ startedAt: o(UtcTime), leaseOwner: o(Id), tool: o(Id), inputs: o(Json) });
/** The results of a pipeline's tasks by name, where there are several. */
const taskResults = o(Type.Record(Type.String(), StoredValue));
export const StepCompleted = closed({
  completedAt: o(UtcTime),
  durationMs: o(Count),
  artifacts,
  outcome: o(Outcome),
  result: o(StoredValue),
  taskResults,
});
export const StepFailed = closed({
  completedAt: o(UtcTime),
  durationMs: o(Count),
  artifacts,
  error: ErrorInfo,
  outcome: o(Outcome),
  result: o(StoredValue),
  ...invalidTransition,
});
export const StepSkipped = closed({
  reason: Text,
  code: o(Id),
  ruleIndex: o(Type.Integer({ minimum: -1 })),
  step: o(Id),
  stepIndex: o(Count),
  /** A step that was refused admission was never scheduled: its cause stands here. */
  cause: o(Cause),
  args: o(JsonObject),
});
export const StepDelayed = closed({ until: UtcTime, reason: Text, error: o(ErrorInfo) });
export const StepCarried = closed({
  from: closed({ runId: KeyPart, stepId: KeyPart, logicalAttemptId: Attempt }),
  step: o(Id),
  status: Type.Enum(['SUCCESS', 'FAILED', 'SKIPPED']),
  result: o(StoredValue),
  taskResults,
  /** What a loop counted. */
  loop: o(closed({ count: Count, failed: Count })),
  artifacts,
  receipts: o(Type.Array(Id, { maxItems: 10_000 })),
  error: o(ErrorInfo),
  skipReason: o(Text),
  cause: o(Cause),
  args: o(JsonObject),
  /** Tokens that this instance sent: those that nobody has taken yet, and those of the instances that follow here. */
  tokens: o(Type.Array(closed({ step: Id, arc: Count, args: o(JsonObject) }), { maxItems: 10_000 })),
  /** Its arcs are still to be evaluated. */
  unrouted: o(Type.Literal(true)),
});
export const LoopStarted = closed({
  mode: Type.Enum(['sequential', 'parallel', 'cursor']),
  iterator: o(Id),
  count: o(Count),
  list: o(StoredValue),
  maxInFlight: o(Type.Integer({ minimum: 1 })),
  finished: o(Type.Array(Count)),
  results: o(StoredValue),
});
export const LoopIterationScheduled = closed({ index, dueAt: o(UtcTime) });
export const LoopIterationStarted = closed({ index, startedAt: o(UtcTime), leaseOwner: o(Id) });
export const LoopIterationDone = closed({
  index,
  durationMs: o(Count),
  outcome: o(Outcome),
  result: o(StoredValue),
  set: o(JsonObject),
  artifacts,
  /** A cursor that found no more work: nothing is handed out after it. */
  exhausted: o(Type.Literal(true)),
  /** Rows of a cursor's frame that were worked on one by one. */
  rows: o(Count),
});
export const LoopIterationFailed = closed({
  index,
  durationMs: o(Count),
  error: ErrorInfo,
  outcome: o(Outcome),
  result: o(StoredValue),
  set: o(JsonObject),
  artifacts,
  /** A cursor that cannot claim: nothing is handed out after it. */
  exhausted: o(Type.Literal(true)),
});
export const LoopDone = closed({ count: Count, failed: Count, result: o(StoredValue) });
export const TaskStarted = closed({
  task: Id,
  tool: Id,
  operation: o(Id),
  effect: o(Type.Enum(['compute', 'read', 'write'])),
  inputs: o(Json),
});
export const TaskAttemptStarted = closed({ attempt: Attempt, inputs: o(Json) });
export const TaskAttemptDone = closed({ attempt: Attempt, outcome: Outcome, result: o(StoredValue) });
export const TaskAttemptFailed = closed({ attempt: Attempt, outcome: Outcome, error: o(ErrorInfo) });
/** `set` holds what hooks, rules and the task itself assigned, so that a redelivered step can go on from here. */
export const TaskDone = closed({
  attempts: Attempt,
  outcome: o(Outcome),
  result: o(StoredValue),
  set: o(JsonObject),
});
export const TaskFailed = closed({
  attempts: Attempt,
  error: ErrorInfo,
  outcome: o(Outcome),
  result: o(StoredValue),
  set: o(JsonObject),
});
export const PolicyAdmitEvaluated = closed({
  allow: Type.Boolean(),
  matchedRuleIndex: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()]),
  reason,
  /** The rules themselves failed: the run fails. */
  failure: o(ErrorInfo),
});
export const PolicyTaskEvaluated = closed({
  matchedRuleIndex: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()]),
  action: closed({
    do: Type.Enum(['continue', 'retry', 'jump', 'break', 'fail']),
    attempts: o(Attempt),
    backoff: o(Type.Enum(['none', 'fixed', 'linear', 'exponential'])),
    delay: o(Type.Number({ minimum: 0 })),
    to: o(Id),
  }),
  set: o(JsonObject),
});
export const PolicyEffectEvaluated = closed({
  decision: Type.Enum(['allow', 'deny', 'needs_approval']),
  actionDigest: Sha256Hex,
  connector: Id,
  operation: Id,
  target: o(Id),
  fields: o(Type.Array(Id, { maxItems: 10_000 })),
  tier: Type.Enum(['low', 'med', 'high']),
  policies: Type.Array(Id, { maxItems: 1000 }),
  revision: o(Id),
  reason,
});
export const NextEvaluated = closed({
  boundary: Id,
  mode: Type.Enum(['exclusive', 'inclusive']),
  matched: Type.Array(closed({ step: Id, arc: o(Count), when: o(Text) }), { maxItems: 10_000 }),
  selected: Type.Array(closed({ step: Id, arc: o(Count), args: o(JsonObject) }), { maxItems: 10_000 }),
  /** Nothing handles this boundary: the run fails, and what is in flight is aborted or may finish. */
  failure: o(closed({ error: ErrorInfo, mode: Type.Enum(['fail_fast', 'best_effort']) })),
});
export const ResultStored = closed({ result: StoredValue });
export const ResultManifestUpdated = closed({ manifest: ArtifactRef, parts: Count });
export const WaitStarted = closed({
  kind: Type.Enum(['approval', 'timer', 'child', 'hold']),
  dueAt: o(UtcTime),
  childRunId: o(KeyPart),
  approvalId: o(Id),
  actionDigest: o(Sha256Hex),
  details: o(JsonObject),
});
export const WaitEnded = closed({
  kind: Type.Enum(['approval', 'timer', 'child', 'hold']),
  outcome: Type.Enum(['done', 'failed', 'approved', 'rejected', 'expired', 'cancelled']),
  by: o(Id),
  reason,
  result: o(StoredValue),
  error: o(ErrorInfo),
});
/** Keys are paths below `ctx`. `source` says who assigned: the tasks of the step, the step, its arcs, its loop, or an earlier run. */
export const CtxPatched = closed({
  set: JsonObject,
  source: o(Type.Enum(['task', 'step', 'arc', 'loop', 'carried'])),
});
const effect = {
  key: Type.String({ minLength: 1, maxLength: 1024 }),
  scope: o(Type.Enum(['run', 'tenant'])),
};
export const EffectAttempted = closed({
  ...effect,
  connector: Id,
  operation: Id,
  target: o(Id),
  actionDigest: o(Sha256Hex),
  settledBy: o(UtcTime),
  request: o(JsonObject),
});
export const EffectSucceeded = closed({
  ...effect,
  response: o(JsonObject),
  reversible: o(Type.Boolean()),
  reverse: o(JsonObject),
  reconciled: o(Type.Boolean()),
  /** Who said that it had happened, where nobody else could know. */
  by: o(Id),
  reason,
  cachedFrom: o(JsonObject),
  result: o(StoredValue),
});
export const EffectFailed = closed({
  ...effect,
  error: ErrorInfo,
  response: o(JsonObject),
  reconciled: o(Type.Boolean()),
});
export const EffectUnknown = closed({ ...effect, reason: Text });

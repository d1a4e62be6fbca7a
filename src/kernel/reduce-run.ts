import { eventRow } from '../contracts/catalogue.ts';
import type { RunMove } from '../contracts/states.ts';
import type { EngineRunRef, EventContext, PlanRef } from '../contracts/values.ts';
import { artifactsOf, errorOf, isObject, objectOf, storedValueOf, textOf } from './payload-reader.ts';
import type { RunInfo } from './state.ts';
import { type KernelEvent, noteErased, type Reducer, refuse, type Work } from './work.ts';

type Change = (info: RunInfo, event: KernelEvent, payload: Readonly<Record<string, unknown>>) => Partial<RunInfo>;

/** A run-level move, validated against the catalogue. The same key again is a duplicate and changes nothing. */
function moves(type: string, change: Change): Reducer {
  const move = eventRow(type)?.runMove as RunMove;
  return (work, event) => {
    const { run } = work.draft;
    const key = `${type}:${event.logicalAttemptId}`;
    if (run.seen.includes(key)) return;
    if (!move.from.includes(run.status)) return refuse(work, event, run.status ?? 'NONE', move.to);
    const changed = change(run, event, objectOf(event.payload));
    work.draft.run = { ...run, ...changed, status: move.to, seen: [...run.seen, key] };
  };
}

const unchanged: Change = () => ({});

const requested: Change = (_info, _event, payload) => ({
  ...optional('planRef', isObject(payload['planRef']) ? (payload['planRef'] as PlanRef) : undefined),
  ...optional('context', isObject(payload['context']) ? (payload['context'] as EventContext) : undefined),
  ...optional('workload', storedValueOf(payload['workload'])),
  ...optional('retryOf', textOf(payload['retryOf'])),
  ...optional('rootRunId', textOf(payload['rootRunId'])),
  ...optional('parentRunId', textOf(payload['parentRunId'])),
  ...optional('parentEntity', textOf(payload['parentEntity'])),
  ...optional('fromStep', textOf(payload['fromStep'])),
});

const started: Change = (_info, event, payload) => ({
  startedAt: textOf(payload['startedAt']) ?? event.emittedAt,
  gate: false,
  ...optional('engineRunRef', refOf(payload['engineRunRef'])),
  ...optional('planRef', isObject(payload['planRef']) ? (payload['planRef'] as PlanRef) : undefined),
  ...optional('context', isObject(payload['context']) ? (payload['context'] as EventContext) : undefined),
});

const ended: Change = (_info, event, payload) => ({ completedAt: textOf(payload['completedAt']) ?? event.emittedAt });

const failed: Change = (info, event, payload) => {
  const given = objectOf(payload['rootCause']);
  const stepId = textOf(given['stepId']) ?? (payload['rootCause'] ? undefined : info.failure?.stepId);
  const error = isObject(given['error']) ? errorOf(given['error']) : undefined;
  const cause = error ?? (isObject(payload['error']) ? errorOf(payload['error']) : info.failure?.error);
  return {
    ...ended(info, event, payload),
    rootCause: { ...(stepId === undefined ? {} : { stepId }), error: cause ?? errorOf(undefined) },
  };
};

function refOf(value: unknown): EngineRunRef | undefined {
  return isObject(value) ? (value as EngineRunRef) : undefined;
}

function optional<K extends keyof RunInfo>(key: K, value: RunInfo[K] | undefined): Partial<RunInfo> {
  return value === undefined ? {} : ({ [key]: value } as Partial<RunInfo>);
}

const withPayload =
  (reduce: Reducer): Reducer =>
  (work, event) => {
    noteErased(work, event);
    reduce(work, event);
  };

function requestEvaluated(work: Work, event: KernelEvent): void {
  const gate = objectOf(event.payload)['gate'] === 'approval';
  if (gate && work.draft.run.status === 'PENDING') work.draft.run = { ...work.draft.run, gate };
}

/** A signal never changes the status by itself: it is the decision that follows from it which does. */
function signalAccepted(work: Work, event: KernelEvent): void {
  noteErased(work, event);
  const payload = objectOf(event.payload);
  const signalId = textOf(payload['signalId']) ?? event.entity?.slice('signal/'.length);
  const { draft } = work;
  if (signalId === undefined || draft.signals.has(signalId)) return;
  draft.signals = draft.signals.set(signalId, 'accepted', work.owner);
  if (payload['signalType'] !== 'CANCEL' || draft.run.cancel) return;
  const by = textOf(payload['by']);
  const reason = textOf(objectOf(payload['parameters'])['reason']);
  draft.run = {
    ...draft.run,
    cancel: { signalId, ...(by === undefined ? {} : { by }), ...(reason === undefined ? {} : { reason }) },
  };
}

function signalRejected(work: Work, event: KernelEvent): void {
  const signalId = textOf(objectOf(event.payload)['signalId']) ?? event.entity?.slice('signal/'.length);
  if (signalId === undefined || work.draft.signals.has(signalId)) return;
  work.draft.signals = work.draft.signals.set(signalId, 'rejected', work.owner);
}

export const RUN_REDUCERS = {
  PlaybookExecutionRequested: withPayload(moves('PlaybookExecutionRequested', requested)),
  PlaybookRequestEvaluated: requestEvaluated,
  RunQueued: moves('RunQueued', unchanged),
  RunApproved: moves('RunApproved', () => ({ gate: false })),
  RunStarted: moves('RunStarted', started),
  RunPaused: moves('RunPaused', (info) => ({ pauses: info.pauses + 1 })),
  RunResumed: moves('RunResumed', (info) => ({ resumes: info.resumes + 1 })),
  RunCompleted: moves('RunCompleted', (info, event, payload) => ({
    ...ended(info, event, payload),
    artifacts: artifactsOf(payload['artifacts']),
  })),
  RunFailed: moves('RunFailed', failed),
  RunCancelled: moves('RunCancelled', ended),
  SignalAccepted: signalAccepted,
  SignalRejected: signalRejected,
} as const satisfies Record<string, Reducer>;

import type { RunStatus, StepStatus } from '../contracts/states.ts';
import type { ArtifactRef, EngineRunRef, ErrorInfo, EventContext, PlanRef, StoredValue } from '../contracts/values.ts';
import { VersionedMap } from '../lib/versioned-map.ts';
import type { JsonObject } from './payload-reader.ts';

/** What a fold keeps. Everything that a snapshot shows, or only what a later decision or template can ask for. */
export interface Retention {
  /** Keep every step instance after its token went on (projector, status, UI). Engines drop them. */
  readonly keepFinished: boolean;
  /** Names of the steps whose results templates read. */
  readonly results: Names;
  /** Names of the steps for which "nearest ancestor" and "the only one" can differ. */
  readonly lineage: Names;
}
export type Names = 'all' | 'none' | ReadonlySet<string>;

export interface RetentionOptions {
  readonly keepFinished: boolean;
  readonly results?: 'all' | 'none' | Iterable<string>;
  readonly lineage?: 'all' | 'none' | Iterable<string>;
}

export interface Arrival {
  readonly from: string;
  readonly arc: number;
}
export type Cause =
  | { readonly kind: 'entry' | 'final' | 'retry' | 'carried' | 'signal' }
  | { readonly kind: 'arc'; readonly arrivals: readonly Arrival[] };

/** An instance that ended, as templates see it. */
export interface Finished {
  readonly stepId: string;
  readonly number: number;
  readonly status: 'SUCCESS' | 'FAILED' | 'SKIPPED';
  readonly result?: StoredValue;
  readonly error?: ErrorInfo;
  readonly reason?: string;
  readonly taskResults?: Readonly<Record<string, StoredValue>>;
  readonly loop?: LoopEnd;
}

/** What a loop counted. */
export interface LoopEnd {
  readonly count: number;
  readonly failed: number;
}

/** The nearest ancestor of each tracked name. `at` is its depth: merging branches compares distances. */
export interface Lineage {
  readonly depth: number;
  readonly nearest: Readonly<Record<string, { readonly at: number; readonly step: Finished }>>;
}

/** What an earlier run of this loop has finished. */
export interface CarriedLoop {
  readonly finished: readonly number[];
  readonly list?: StoredValue;
  readonly results?: StoredValue;
}

/**
 * One instance of a step. Every field is always there, absent or not: instances of one shape are copied an order of
 * magnitude faster, and the fold copies one with almost every event.
 */
export interface StepState {
  readonly stepId: string;
  readonly name: string;
  /** Order of first appearance: the order of `steps` in a snapshot. */
  readonly ordinal: number;
  readonly status: StepStatus;
  readonly attempt: number;
  /** Which of the step's own events were applied: one bit each, for this attempt and (rarely) for the ones before. */
  readonly seen: number;
  readonly seenBefore: Readonly<Record<number, number>> | undefined;
  readonly engineAttempt: number | undefined;
  readonly startedAt: string | undefined;
  readonly completedAt: string | undefined;
  readonly artifacts: readonly ArtifactRef[];
  readonly error: ErrorInfo | undefined;
  readonly skipReason: string | undefined;
  readonly skipCode: string | undefined;
  readonly result: StoredValue | undefined;
  readonly taskResults: Readonly<Record<string, StoredValue>> | undefined;
  readonly loopEnd: LoopEnd | undefined;
  readonly cause: Cause | undefined;
  readonly args: JsonObject | undefined;
  readonly lineage: Lineage | undefined;
  readonly stepIndex: number | undefined;
  readonly tool: string | undefined;
  readonly leaseOwner: string | undefined;
  readonly dueAt: string | undefined;
  readonly timeoutMs: number | undefined;
  /** Why the attempt is held back, and what went wrong before it. */
  readonly delayed: { readonly reason: string; readonly error?: ErrorInfo } | undefined;
  readonly carried: CarriedLoop | undefined;
  /** How many waits and ctx patches this step has had, and how many waits are open. */
  readonly waits: number;
  readonly patches: number;
  readonly openWaits: number;
  /** A wait ended, and nothing of the step has been recorded since: somebody has to take it up. */
  readonly eligible: boolean;
  /** A wait ended against the step (rejected, expired): it has to fail. */
  readonly verdict: Verdict | undefined;
}

export type Verdict = 'APPROVAL_REJECTED' | 'APPROVAL_EXPIRED';

/** What is known about a step of the plan: highest instance number, instances in `open`, highest one that ended. */
export interface NameState {
  readonly instances: number;
  readonly live: number;
  readonly finished: Finished | undefined;
}

/** A token on its way along an arc: taken at once, or held by a join. */
export interface Token {
  readonly to: string;
  readonly from: string;
  readonly arc: number;
  /** The boundary on which it was sent. */
  readonly boundary: string | undefined;
  readonly args: JsonObject | undefined;
  readonly lineage: Lineage | undefined;
}

export interface OpenIteration {
  /** The log says that it was handed out; of one below another that was recorded first, it is only known. */
  readonly scheduled: boolean;
  readonly started: boolean;
  /** How often it had been taken when it began to wait. */
  readonly engineAttempt?: number | undefined;
  readonly dueAt?: string;
  readonly waits: number;
  readonly patches: number;
  readonly openWaits: number;
  readonly eligible: boolean;
  readonly verdict: Verdict | undefined;
}

/** A loop is counters and the set of open indexes, never its results. */
export interface LoopState {
  readonly stepId: string;
  readonly attempt: number;
  readonly mode: 'sequential' | 'parallel' | 'cursor';
  readonly iterator?: string;
  readonly count?: number;
  readonly list?: StoredValue;
  readonly maxInFlight?: number;
  readonly results?: StoredValue;
  /** Indexes below this were handed out or had been finished by an earlier run. */
  readonly next: number;
  readonly carried: ReadonlySet<number>;
  readonly open: VersionedMap<number, OpenIteration>;
  readonly ended: number;
  readonly failed: number;
  /** The first failure, or the first that nothing may catch. */
  readonly firstError?: ErrorInfo;
  /** Which iterations failed: the first few of them. */
  readonly failedAt?: readonly number[];
  /** A cursor found no more work. */
  readonly exhausted: boolean;
  /** Writes of parallel iterations, kept apart until the loop ends; `conflict` names a key with two values. */
  readonly set: JsonObject;
  readonly conflict?: string;
}

export interface WaitState {
  readonly entity: string;
  readonly stepId: string;
  readonly iteration?: number;
  readonly attempt: number;
  readonly engineAttempt?: number;
  readonly kind: 'approval' | 'timer' | 'child' | 'hold';
  readonly dueAt?: string;
  readonly childRunId?: string;
  readonly approvalId?: string;
  readonly actionDigest?: string;
  readonly details?: JsonObject;
}

export interface RunFailure {
  readonly stepId?: string;
  readonly error: ErrorInfo;
  readonly mode: 'fail_fast' | 'best_effort';
}

/** What is true of the run as a whole; it changes a few times in a run, so it is copied when it does. */
export interface RunInfo {
  readonly status: RunStatus | null;
  /** Run-level moves that were applied, as `type:occurrence`. */
  readonly seen: readonly string[];
  readonly pauses: number;
  readonly resumes: number;
  readonly startedAt?: string;
  readonly completedAt?: string;
  readonly engineRunRef?: EngineRunRef;
  readonly planRef?: PlanRef;
  readonly context?: EventContext;
  readonly workload?: StoredValue;
  readonly retryOf?: string;
  readonly rootRunId?: string;
  readonly parentRunId?: string;
  readonly parentEntity?: string;
  readonly fromStep?: string;
  /** The plan waits for an approval before the run may start. */
  readonly gate: boolean;
  readonly cancel?: { readonly signalId: string; readonly by?: string; readonly reason?: string };
  readonly failure?: RunFailure;
  readonly rootCause?: { readonly stepId?: string; readonly error: ErrorInfo };
  readonly artifacts: readonly ArtifactRef[];
}

export interface RunState {
  readonly runId: string;
  readonly retention: Retention;
  readonly lastEventSeq: number;
  readonly run: RunInfo;
  /** How many instances were seen, and how many of them are PENDING or RUNNING. */
  readonly ordinal: number;
  readonly unended: number;
  readonly failedSteps: number;
  readonly inconsistent: boolean;
  /** The first record without which no decision can be made, because its payload was erased. */
  readonly erasedSeq: number | undefined;
  readonly ctx: JsonObject;
  readonly lastResult: StoredValue | undefined;
  /** Failures that an arc or best_effort took care of; RunCompleted lists them. */
  readonly handled: readonly { readonly stepId: string; readonly error: ErrorInfo }[];
  /** Instances whose token has not gone on, and those whose token has. */
  readonly open: VersionedMap<string, StepState>;
  readonly done: VersionedMap<string, StepState>;
  /** Ended instances whose arcs are not evaluated yet. */
  readonly unrouted: VersionedMap<string, true>;
  /** By step name. */
  readonly names: VersionedMap<string, NameState>;
  readonly tokens: VersionedMap<string, readonly Token[]>;
  readonly loops: VersionedMap<string, LoopState>;
  readonly waits: VersionedMap<string, WaitState>;
  readonly signals: VersionedMap<string, 'accepted' | 'rejected'>;
}

const NO_RUN: RunInfo = Object.freeze({
  status: null,
  seen: Object.freeze([]),
  pauses: 0,
  resumes: 0,
  gate: false,
  artifacts: Object.freeze([]),
});

/** The state before the first event. By default a view keeps no results, and an engine all of them. */
export function initialState(runId: string, options: RetentionOptions): RunState {
  const fallback = options.keepFinished ? 'none' : 'all';
  return {
    runId,
    retention: {
      keepFinished: options.keepFinished,
      results: namesOf(options.results ?? fallback),
      lineage: namesOf(options.lineage ?? fallback),
    },
    lastEventSeq: 0,
    run: NO_RUN,
    ordinal: 0,
    unended: 0,
    failedSteps: 0,
    inconsistent: false,
    erasedSeq: undefined,
    ctx: Object.freeze({}),
    lastResult: undefined,
    handled: Object.freeze([]),
    open: VersionedMap.empty(),
    done: VersionedMap.empty(),
    unrouted: VersionedMap.empty(),
    names: VersionedMap.empty(),
    tokens: VersionedMap.empty(),
    loops: VersionedMap.empty(),
    waits: VersionedMap.empty(),
    signals: VersionedMap.empty(),
  };
}

function namesOf(names: 'all' | 'none' | Iterable<string>): Names {
  if (typeof names === 'string') return names === 'none' ? 'none' : 'all';
  const set = new Set(names);
  return set.size === 0 ? 'none' : set;
}

export function includesName(names: Names, name: string): boolean {
  return names === 'all' || (names !== 'none' && names.has(name));
}

import type { EventType } from '../contracts/catalogue.ts';
import type { ErrorCode } from '../contracts/errors.ts';
import type { ArtifactRef, ErrorInfo, Outcome, StoredValue } from '../contracts/values.ts';
import type { JsonObject } from './payload-reader.ts';
import type { CarriedLoop, RunState } from './state.ts';

/** An event that was decided. The shell gives it its id, key and time of emission and appends it. */
export interface EventDraft {
  readonly eventType: EventType;
  readonly stepId?: string;
  readonly entity?: string;
  readonly logicalAttemptId: number;
  readonly engineAttemptId?: number;
  readonly payload?: Record<string, unknown>;
}

/**
 * The answer of `decide`: the events that follow; or the stored values without which nothing can be decided, to be put
 * into the command; or the reason why the command does not apply. Nothing else comes out: what to schedule, delay or
 * wait for is read off the events.
 */
export type Decision =
  | { readonly events: readonly EventDraft[] }
  | { readonly need: readonly string[] }
  | { readonly reject: { readonly code: ErrorCode; readonly message: string } };

interface Base {
  /** The time of the decision, RFC 3339 UTC. */
  readonly now: string;
  /** Jitter for retries, in [0, 1). */
  readonly random?: number;
  /** Stored values by their reference, verified by whoever fetched them. */
  readonly values?: Readonly<Record<string, unknown>>;
}

export interface RequestFields {
  readonly planRef: Readonly<Record<string, unknown>>;
  readonly context: Readonly<Record<string, unknown>>;
  readonly workload?: StoredValue;
  readonly triggerType?: string;
  readonly triggerRef?: string;
  readonly runRequestId?: string;
  readonly parentRunId?: string;
  readonly parentStepId?: string;
  readonly parentEntity?: string;
  /** The first run of the chain of retries that this one belongs to: effects of the run's own scope have its id in their keys. */
  readonly rootRunId?: string;
}

/** What admission control said. REJECT creates no run, so it is no decision of the kernel. */
export interface Admission {
  readonly decision: 'accept' | 'queue' | 'delay';
  readonly reason?: string;
  readonly notBefore?: string;
  readonly report?: Record<string, unknown>;
  readonly gate?: 'approval';
}

/** How a step or an iteration ended, as its runner tells it. */
export type Settled =
  | {
      readonly status: 'completed';
      readonly result?: StoredValue;
      readonly taskResults?: Readonly<Record<string, StoredValue>>;
      readonly outcome?: Outcome;
      readonly artifacts?: readonly ArtifactRef[];
      readonly durationMs?: number;
      readonly completedAt?: string;
      /** A cursor that found no more work. */
      readonly exhausted?: true;
      /** Rows of a cursor's frame, and what each of them gave; who settles it makes one result of them. */
      readonly rows?: number;
      readonly rowResults?: readonly StoredValue[];
    }
  | {
      readonly status: 'failed';
      readonly error: ErrorInfo;
      /** A cursor that cannot claim: nothing is handed out after it. */
      readonly exhausted?: true;
      readonly result?: StoredValue;
      readonly outcome?: Outcome;
      readonly artifacts?: readonly ArtifactRef[];
      readonly durationMs?: number;
      readonly completedAt?: string;
    };

export type WaitKind = 'approval' | 'timer' | 'child' | 'hold';
export type WaitOutcome = 'done' | 'failed' | 'approved' | 'rejected' | 'expired' | 'cancelled';

export type Command = Base &
  (
    | ({ readonly type: 'request'; readonly admission?: Admission } & RequestFields)
    | ({
        readonly type: 'retryRun';
        readonly admission?: Admission;
        /** The terminal run, folded with `keepFinished: true, results: 'all'`. */
        readonly old: RunState;
        /** Run again from this step on; needed for a plan with another hash. */
        readonly from?: string;
        readonly receipts?: Readonly<Record<string, readonly string[]>>;
        readonly loops?: Readonly<Record<string, CarriedLoop>>;
      } & RequestFields)
    | { readonly type: 'queue'; readonly reason?: string; readonly position?: number }
    | { readonly type: 'approve'; readonly approvedBy?: string; readonly approvalId?: string; readonly reason?: string }
    /** `started` is the payload of RunStarted; `notBefore` holds the first steps back. */
    | { readonly type: 'start'; readonly started: Record<string, unknown>; readonly notBefore?: string }
    /** `abandon`: whatever is open ends with it, because nobody can go on with it. */
    | { readonly type: 'failRun'; readonly error: ErrorInfo; readonly abandon?: true }
    | {
        readonly type: 'stepSettled';
        readonly stepId: string;
        readonly attempt: number;
        readonly engineAttempt?: number;
        readonly settled: Settled;
        /** What the step's tasks wrote to ctx, by path. */
        readonly set?: JsonObject;
      }
    | {
        readonly type: 'loopResolved';
        readonly stepId: string;
        readonly attempt: number;
        /** Absent for a cursor. */
        readonly list?: StoredValue;
        readonly count?: number;
      }
    | {
        readonly type: 'iterationSettled';
        readonly stepId: string;
        readonly attempt: number;
        readonly index: number;
        readonly engineAttempt?: number;
        readonly settled: Settled;
        readonly set?: JsonObject;
      }
    | {
        readonly type: 'loopSettled';
        readonly stepId: string;
        readonly attempt: number;
        /** The list of the iterations' results in index order, stored as one value. */
        readonly result: StoredValue;
      }
    | {
        readonly type: 'park';
        readonly stepId: string;
        readonly attempt: number;
        readonly index?: number;
        readonly engineAttempt?: number;
        readonly kind: WaitKind;
        readonly dueAt?: string;
        readonly childRunId?: string;
        readonly approvalId?: string;
        readonly actionDigest?: string;
        readonly details?: Record<string, unknown>;
      }
    | {
        readonly type: 'waitEnded';
        readonly entity: string;
        readonly outcome: WaitOutcome;
        readonly by?: string;
        readonly reason?: string;
        readonly result?: StoredValue;
        readonly error?: ErrorInfo;
      }
    | {
        readonly type: 'signal';
        readonly signalId: string;
        readonly signalType: string;
        readonly by?: string;
        readonly role?: string;
        readonly stepId?: string;
        readonly parameters?: Record<string, unknown>;
        /** The record of the authorization that let it through, or why it was denied. */
        readonly decision?: Record<string, unknown>;
        readonly denied?: { readonly code: string; readonly reason: string };
      }
    | { readonly type: 'cancelGraceOver' }
    | { readonly type: 'tick' }
  );

export type CommandOf<T extends Command['type']> = Extract<Command, { type: T }>;

/** A command before the shell says what time it is. */
export type TimelessCommand = Command extends infer C ? (C extends Command ? Omit<C, 'now'> : never) : never;

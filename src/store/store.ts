import type { Alert } from '../contracts/alerts.ts';
import type { Emitter } from '../contracts/catalogue.ts';
import type { AppendReceipt, LedgerRecord, RunEventWrite } from '../contracts/envelope.ts';
import type { AppError } from '../contracts/errors.ts';
import type { RunSnapshot } from '../contracts/snapshot.ts';
import type { EngineName } from '../contracts/values.ts';
import type { ProviderRef, RunRow } from './sql/find-run.ts';
import type { StreamCursor, StreamEvent } from './sql/read-stream.ts';

/** A run to be created, with its first events. */
export interface NewRun {
  readonly runId: string;
  readonly tenantId: string;
  readonly projectId: string;
  readonly environmentId: string;
  readonly planId: string;
  readonly planVersion: string;
  /** The client's own key: the same request twice gives one run. */
  readonly runRequestId?: string;
  /** What set the run off; unique per scope and playbook whatever the plan version. */
  readonly trigger?: { readonly type: string; readonly ref: string; readonly playbookPath?: string };
  readonly parentRunId?: string;
  readonly retryOf?: string;
  /** Who schedules the run; its own engine here unless told otherwise. */
  readonly engine?: EngineName;
  readonly events?: readonly RunEventWrite[];
}

export interface CreatedRun {
  readonly runId: string;
  /** False when the run was there before: by its id, its request or its trigger. */
  readonly created: boolean;
}

export interface AppendOptions {
  /** The role of the producer; an event of another role is refused. */
  readonly as: Emitter;
  /** The decided head on which a decision was made; HEAD_MOVED when another decision came first. */
  readonly expectedHead?: number;
  /** Events of an older log: their id and key are kept as they are, and no emitter is asked for. */
  readonly imported?: boolean;
}

/** Refusals are values: the caller decides what to do. A database that cannot be reached is thrown. */
export type AppendResult =
  | {
      readonly ok: true;
      readonly receipts: readonly AppendReceipt[];
      /** The stored records of those events that were there before. Fold these, not your own. */
      readonly stored: readonly LedgerRecord[];
    }
  | { readonly ok: false; readonly error: AppError };

export interface EventQuery {
  readonly afterSeq?: number;
  readonly throughSeq?: number;
  readonly types?: readonly string[];
  /** A step instance or a finer entity, with everything below it. */
  readonly entity?: string;
  /** At most this many; 1000 by default, 10,000 at most. */
  readonly limit?: number;
}

/** Store time from (included) to (excluded). `after` is the last record of the page before. */
export interface WindowQuery {
  readonly from: string;
  readonly to: string;
  readonly types?: readonly string[];
  readonly tenantId?: string;
  readonly after?: { readonly persistedAt: string; readonly runId: string; readonly runSeq: number };
  readonly limit?: number;
}

export interface SavedSnapshot {
  readonly lastEventSeq: number;
  readonly state: string;
  readonly snapshot: RunSnapshot;
}

export interface EraseRequest {
  readonly runSeqs: readonly number[];
  readonly reason: string;
  readonly by?: string;
  readonly emittedAt: string;
}

/** The only door to the log. Every adapter passes the same published suite. */
export interface Store {
  createRun(run: NewRun): Promise<CreatedRun>;
  append(events: readonly RunEventWrite[], options: AppendOptions): Promise<AppendResult>;
  /** One answer per call, in order; a refused call does not touch the others. */
  appendMany(calls: readonly { events: readonly RunEventWrite[]; options: AppendOptions }[]): Promise<AppendResult[]>;
  findRun(runId: string): Promise<RunRow | undefined>;
  findRunByProvider(ref: ProviderRef): Promise<RunRow | undefined>;
  linkProvider(runId: string, ref: ProviderRef): Promise<void>;
  readEvents(runId: string, query?: EventQuery): Promise<LedgerRecord[]>;
  readWindow(query: WindowQuery): Promise<LedgerRecord[]>;
  readStream(after: StreamCursor | undefined, limit?: number): Promise<StreamEvent[]>;
  /** Every event of a run in order, then new ones as they come, until the signal aborts. */
  follow(runId: string, options?: { afterSeq?: number; signal?: AbortSignal }): AsyncIterable<LedgerRecord>;
  loadSnapshot(runId: string): Promise<SavedSnapshot | undefined>;
  /** False when a newer one is there. */
  saveSnapshot(runId: string, saved: SavedSnapshot): Promise<boolean>;
  /** False when the same finding was raised before. */
  raiseAlert(alert: Omit<Alert, 'raisedAt'>): Promise<boolean>;
  listAlerts(query?: { runId?: string; code?: string; limit?: number }): Promise<Alert[]>;
  erase(runId: string, request: EraseRequest): Promise<AppendReceipt>;
  close(): Promise<void>;
}

import type { AppendReceipt, LedgerRecord, RunEventWrite } from '../contracts/envelope.ts';
import type { AppError } from '../contracts/errors.ts';
import type { EngineName } from '../contracts/values.ts';
import type { RunIdentity } from './sql/read-events.ts';
import type { CreatedRun, NewRun } from './store.ts';

/** A unit of work that somebody holds. The fence is the lease's own number: whoever holds an older one is refused. */
export interface Lease {
  readonly unit: string;
  readonly fence: number;
  /** How often the unit was taken, this time included; absent for the first time. */
  readonly deliveries?: number;
}

/** What a worker may take: everything, what belongs to a tenant or project, or only these runs and their children. */
export interface ClaimScope {
  readonly runs?: readonly string[];
  readonly tenantId?: string;
  readonly projectId?: string;
}

export interface ClaimOptions {
  readonly limit: number;
  readonly leaseMs: number;
  /** Who schedules the runs; native by default. */
  readonly engine?: EngineName;
  readonly scope?: ClaimScope | undefined;
}

export interface ClaimedUnit extends Lease {
  readonly runKey: number;
  readonly runId: string;
  readonly tenantId: string;
  /** How often the unit was taken, this time included. */
  readonly deliveries: number;
  /** The run is being stopped. */
  readonly stop: boolean;
}

/** What came of asking for one unit by its name. */
export type UnitClaim =
  | { readonly state: 'claimed'; readonly unit: ClaimedUnit }
  /** The log no longer asks for it. */
  | { readonly state: 'gone' }
  /** The run is paused. */
  | { readonly state: 'held' }
  /** It is not due yet, or somebody else has a lease, for so long. */
  | { readonly state: 'later' | 'leased'; readonly waitMs: number };

export type WorkChange =
  /** The unit under whose lease the call is made, which is kept or ends with it. */
  | { readonly op: 'check' | 'delete'; readonly unit: string; readonly fence?: number }
  | {
      readonly op: 'insert';
      readonly unit: string;
      readonly dueAt?: string;
      /** Leased to the caller at once. */
      readonly lease?: boolean;
      /** How often it was taken before a wait: a unit that comes back is not a new one. */
      readonly taken?: number;
      /** The run is paused: not handed out before it resumes. */
      readonly held?: boolean;
    }
  /** All of the run: paused, resumed, ended, asked to stop. */
  | { readonly op: 'hold' | 'letGo' | 'clear' | 'stop' };

export type LoopChange =
  | {
      readonly op: 'begin';
      readonly loop: string;
      readonly next: number;
      readonly total: number;
      readonly inFlight: number;
      readonly maxInFlight: number;
      readonly skip: readonly number[];
    }
  /** An iteration ended. `stop`: no more of them are handed out. */
  | { readonly op: 'ended'; readonly loop: string; readonly stop: boolean };

/** What one decision, or a part of one step's facts, changes. Stored together or not at all. */
export interface WorkCommit {
  readonly run: RunIdentity;
  /** What the store itself has decided (an iteration that was handed out of its loop), recorded before the facts. */
  readonly opening?: readonly RunEventWrite[];
  /** What a worker saw; control-plane events are refused here. */
  readonly facts?: readonly RunEventWrite[];
  /** Steps that were taken one after the other, each with what was decided about it; recorded before everything else. */
  readonly ahead?: readonly { readonly facts: readonly RunEventWrite[]; readonly decision: readonly RunEventWrite[] }[];
  /** What the kernel decided on `expectedHead`. */
  readonly decision?: readonly RunEventWrite[];
  readonly expectedHead?: number;
  /** Up to where the caller has folded the log: what it has not seen comes back when its head was not the newest. */
  readonly seenSeq?: number;
  readonly owner?: string;
  readonly leaseMs?: number;
  readonly work?: readonly WorkChange[];
  readonly loops?: readonly LoopChange[];
}

export type CommitResult =
  | {
      readonly ok: true;
      readonly receipts: readonly AppendReceipt[];
      /** The stored records of events that were there before. Fold these, not your own. */
      readonly stored: readonly LedgerRecord[];
      /** Units that were inserted leased, and iterations (or the end of a loop) that came out of a loop. */
      readonly leases: readonly Lease[];
      readonly handouts: readonly Lease[];
    }
  | {
      readonly ok: false;
      readonly reason: 'LEASE_LOST' | 'HEAD_MOVED' | 'EFFECT_TAKEN' | 'REFUSED';
      readonly error: AppError;
      readonly missing: readonly LedgerRecord[];
    };

export interface Receipt {
  readonly key: string;
  readonly runId: string;
  readonly path: string;
  readonly status: 'attempted' | 'succeeded' | 'failed' | 'unknown';
  /** By the database's clock: how long until the call can no longer be under way; negative when it is over. */
  readonly settlesInMs?: number;
  readonly details: Readonly<Record<string, unknown>>;
}

export interface NewWork {
  readonly unit: string;
  readonly dueAt?: string;
  readonly owner?: string;
  readonly leaseMs?: number;
}

export interface RepairRequest {
  readonly atSeq: number;
  readonly units: readonly {
    readonly unit: string;
    readonly dueAt?: string;
    readonly held: boolean;
    readonly taken?: number;
  }[];
  readonly loops: readonly (Omit<Extract<LoopChange, { op: 'begin' }>, 'op'> & { readonly stopped: boolean })[];
}

export interface StoredPlan {
  readonly sha256: string;
  readonly planId: string;
  readonly planVersion: string;
  readonly schemaVersion: string;
  readonly body: string;
}

/** A row of work as people see it. */
export interface WorkRow {
  readonly unit: string;
  readonly fence: number;
  readonly leaseOwner?: string;
  readonly leaseExpiresAt?: string;
  readonly nextEligibleAt?: string;
  readonly deliveries: number;
  readonly held: boolean;
  readonly lastError?: string;
}

/** The verbs of engines and workers. Each is one round trip and one transaction. */
export interface WorkStore {
  /** Creates the run with its first events and its first work. The leases are those of the units with an owner. */
  startRun(run: NewRun, work: readonly NewWork[]): Promise<CreatedRun & { runKey: number; leases: readonly Lease[] }>;
  commit(commit: WorkCommit): Promise<CommitResult>;
  /** Due units of runs that the engine schedules. */
  claim(owner: string, options: ClaimOptions): Promise<ClaimedUnit[]>;
  /** Says that a worker lives, and gives the others that were here on the same host. */
  checkIn(owner: string, hostTag: string): Promise<string[]>;
  /** Hands back everything that these workers hold, because they are dead or stop. How many units are free now. */
  releaseOwners(owners: readonly string[]): Promise<number>;
  claimUnit(runId: string, unit: string, owner: string, leaseMs: number): Promise<UnitClaim>;
  /** Runs of the engine that have had a unit to take for so long, and nobody takes it. */
  overdue(engine: EngineName, options: { olderThanMs: number; limit: number }): Promise<string[]>;
  /** Per lease whether it is still held and whether its holder is asked to stop. */
  renew(
    leases: readonly (Lease & { readonly runKey: number })[],
    leaseMs: number,
  ): Promise<{ readonly held: boolean; readonly stop: boolean }[]>;
  release(
    leases: readonly (Lease & { readonly runKey: number })[],
    options?: { delayMs?: number; error?: string },
  ): Promise<void>;
  /** Removes a unit that the log no longer asks for. */
  discard(lease: Lease & { readonly runKey: number }): Promise<boolean>;
  /** Another lease for the same holder: what was sent under the old one is refused. Undefined when it has ended. */
  burn(lease: Lease & { readonly runKey: number }, leaseMs: number): Promise<number | undefined>;
  /** Makes a waiting unit of a run available at once. */
  wake(runId: string, unit: string): Promise<boolean>;
  /** How many rows were put back; undefined when the log has grown since it was folded. */
  repair(runId: string, request: RepairRequest): Promise<number | undefined>;
  list(runId: string): Promise<WorkRow[]>;
  findReceipt(tenantId: string, key: string): Promise<Receipt | undefined>;
  /** Work on the run with its row locked: nothing else is appended to it until the work ends. */
  locked<T>(
    run: RunIdentity,
    afterSeq: number,
    work: (missing: readonly LedgerRecord[], commit: (commit: WorkCommit) => Promise<CommitResult>) => Promise<T>,
  ): Promise<T>;
  /** Runs that this run started and that have not ended. */
  openChildren(runId: string): Promise<string[]>;
  putPlan(plan: StoredPlan): Promise<void>;
  findPlan(sha256: string): Promise<StoredPlan | undefined>;
  /** The newest plan of that id. */
  findPlanById(planId: string): Promise<StoredPlan | undefined>;
}

import type { Plan } from '../contracts/plan.ts';
import type { EventDraft } from '../kernel/commands.ts';
import type { RunState } from '../kernel/state.ts';
import type { RunIdentity } from '../store/sql/read-events.ts';
import type { Receipt } from '../store/work.ts';

/** A step attempt, or one iteration of it. */
export interface UnitPlace {
  readonly stepId: string;
  readonly attempt: number;
  readonly index?: number;
}

/** The run as the unit sees it. */
export interface UnitView {
  readonly run: RunIdentity;
  readonly plan: Plan;
  readonly state: RunState;
}

/** What the step runner needs of whoever holds the unit: a lease, an activity or a foreign engine's task. */
export interface UnitHost {
  readonly view: UnitView;
  readonly place: UnitPlace;
  /** Item of the loop that this unit is an iteration of. */
  readonly item?: unknown;
  readonly engineAttempt: number;
  /** Aborts when the run is being stopped (CANCELLED) or the lease is lost (LEASE_LOST). */
  readonly signal: AbortSignal;
  /** Events that begin the unit and have not been recorded: they go before the first facts. */
  readonly begun: readonly EventDraft[];
  /** Something of this unit may have been recorded by an earlier delivery. */
  readonly isRedelivered: boolean;
  /** Stores facts under the lease. Throws LEASE_LOST or EFFECT_TAKEN when they are refused. */
  record(facts: readonly EventDraft[]): Promise<void>;
  /** What was recorded of this unit, in the order of the log. */
  recorded(): Promise<readonly EventDraft[]>;
  /** Makes sure that the lease lasts so long, by the monotonic clock. False when it cannot be had. */
  ensureLease(millis: number): Promise<boolean>;
  /** Whether the run is paused at this moment, by the store. */
  isPaused(): Promise<boolean>;
  findReceipt(key: string): Promise<Receipt | undefined>;
}

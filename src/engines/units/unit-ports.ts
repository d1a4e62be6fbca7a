import type { WaitState } from '../../kernel/state.ts';
import type { Store } from '../../store/store.ts';
import type { RunnerPorts } from '../../worker/ports.ts';
import type { RunView } from '../../worker/run-view.ts';
import type { WriteBudget } from '../../worker/write-budget.ts';
import type { DecisionPorts } from './commit-decision.ts';
import type { RunViews } from './run-views.ts';

/** What a worker's units need beside their own lease. */
export interface UnitPorts extends DecisionPorts {
  readonly store: Store;
  readonly runner: RunnerPorts;
  readonly views: RunViews;
  /** How many of the units that follow are leased to this worker at once. None: whoever schedules hands them out. */
  readonly room: () => number;
  readonly isStopping: () => boolean;
  readonly budget: WriteBudget;
  /** Steps that only compute or read do not wait for the commit of the step before them. */
  readonly runAhead: boolean;
  /** How soon a wait for a child looks again by itself, should nobody wake it. */
  readonly childPollMs?: number;
  /** Starts the child that a wait names; it may be there already. */
  readonly startChild: (view: RunView, wait: WaitState) => Promise<void>;
  readonly relaySignal: (runId: string, signalType: string, signalId: string) => Promise<void>;
}

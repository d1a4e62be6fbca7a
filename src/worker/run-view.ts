import { eventRow } from '../contracts/catalogue.ts';
import type { AppendReceipt, RunEventWrite } from '../contracts/envelope.ts';
import type { Plan } from '../contracts/plan.ts';
import type { EventDraft } from '../kernel/commands.ts';
import { engineState } from '../kernel/compile-plan.ts';
import { fold, type RecordedEvent } from '../kernel/evolve.ts';
import type { RunState } from '../kernel/state.ts';
import type { RunIdentity } from '../store/sql/read-events.ts';

/**
 * What a worker believes about a run: the fold of a gapless beginning of its log, and the head on which it decides. What
 * others have appended since is read when a decision is refused, or when somebody has to know.
 */
export class RunView {
  readonly run: RunIdentity;
  readonly plan: Plan;
  #state: RunState;
  #head = 0;
  #behind = false;

  constructor(run: RunIdentity, plan: Plan) {
    this.run = run;
    this.plan = plan;
    this.#state = engineState(plan, run.runId);
  }

  /** The view of a run whose first events are these, and the state that they give. */
  static begun(run: RunIdentity, plan: Plan, events: readonly RunEventWrite[], state: RunState): RunView {
    const view = new RunView(run, plan);
    view.#state = state;
    view.#head = events.findLastIndex(({ eventType }) => movesHead(eventType)) + 1;
    return view;
  }

  get state(): RunState {
    return this.#state;
  }

  /** The last event that a decision must have seen. */
  get head(): number {
    return this.#head;
  }

  /** Others appended something that is not in the state. */
  get isBehind(): boolean {
    return this.#behind;
  }

  /** Folds what was read from the log after `state.lastEventSeq`. */
  take(records: readonly RecordedEvent[]): void {
    if (records.length === 0) return;
    this.#state = fold(this.#state, records);
    for (const record of records)
      if (movesHead(record.eventType) && record.runSeq > this.#head) this.#head = record.runSeq;
    this.#behind = false;
  }

  /**
   * Folds own events that were stored, if they follow at once on what is known; else the view is behind. Where they are
   * what was expected, on the state from which it was expected, they are folded already.
   */
  stored(events: readonly RunEventWrite[], receipts: readonly AppendReceipt[], expected?: Expected): void {
    if (expected && this.#adopt(events, receipts, expected)) return;
    const records: RecordedEvent[] = [];
    let next = this.#state.lastEventSeq + 1;
    for (const [i, event] of events.entries()) {
      const { runSeq, duplicate } = receipts[i]!;
      if (runSeq < next) continue;
      if (runSeq !== next || duplicate) {
        this.#behind = true;
        break;
      }
      records.push({ ...event, runSeq });
      next += 1;
    }
    if (records.length === 0) return;
    const behind = this.#behind;
    this.take(records);
    this.#behind = behind;
  }

  #adopt(events: readonly RunEventWrite[], receipts: readonly AppendReceipt[], { from, to }: Expected): boolean {
    const first = from.lastEventSeq + 1;
    if (this.#state !== from || to.lastEventSeq !== from.lastEventSeq + events.length) return false;
    if (!receipts.every(({ runSeq, duplicate }, i) => runSeq === first + i && !duplicate)) return false;
    this.#state = to;
    const last = events.findLastIndex(({ eventType }) => movesHead(eventType));
    if (last >= 0) this.#head = first + last;
    return true;
  }
}

/** A state, and what it becomes when events are stored as they were sent. */
export interface Expected {
  readonly from: RunState;
  readonly to: RunState;
}

/** Whether a decision must have seen events of this type. */
export const movesHead = (eventType: string): boolean => eventRow(eventType)?.commutes !== true;

/**
 * The state as it will be when these events are stored: what a decision about their consequences is made on. Attempts are
 * those that a stamp gives them.
 */
export function expectStored(
  state: RunState,
  drafts: readonly EventDraft[],
  emittedAt: string,
  engineAttempt = 1,
): RunState {
  if (drafts.length === 0) return state;
  let runSeq = state.lastEventSeq;
  return fold(
    state,
    drafts.map((draft) => {
      runSeq += 1;
      return { engineAttemptId: engineAttempt, ...draft, emittedAt, runSeq };
    }),
  );
}

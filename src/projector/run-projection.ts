import { detectNonContiguous, foldWithReport, type RecordedEvent } from '../kernel/evolve.ts';
import type { RunState } from '../kernel/state.ts';
import type { Violation } from '../kernel/work.ts';
import { blankState } from './snapshot-projector.ts';

/** An event as the store hands it out. */
export interface LoggedEvent extends RecordedEvent {
  readonly eventId: string;
  readonly persistedAt: string;
}

/** A fetch that jumped. The events in between may come, or there may be none. */
export interface Gap {
  readonly lastSeq: number;
  readonly nextSeq: number;
}

export interface FoundViolation extends Violation {
  readonly event: LoggedEvent;
}

export interface ProjectionStart {
  /** Gaps up to here were dealt with when they were seen first. Infinity for a resync, which takes the log as it is. */
  readonly gapsThrough: number;
  /** Erasures up to here happened before the events are read, or before the state was folded. */
  readonly erasedThrough: number;
}

/**
 * The projection of one run while its log is read page by page. Read on after `state.lastEventSeq`, which goes back to
 * the beginning when an erasure is met, until there is a gap or nothing more to read.
 */
export class RunProjection {
  state: RunState;
  gap: Gap | undefined;
  readonly violations: FoundViolation[] = [];
  #gapsThrough: number;
  #erasedThrough: number;

  constructor(state: RunState, start: ProjectionStart) {
    this.state = state;
    this.#gapsThrough = start.gapsThrough;
    this.#erasedThrough = start.erasedThrough;
  }

  take(page: readonly LoggedEvent[]): void {
    const { events, gap } = this.#beforeGap(page);
    const erasure = events.findLast((event) => event.eventType === 'PayloadErased');
    if (erasure && erasure.runSeq > this.#erasedThrough) {
      // What the state took from the payload is in it still. Folded again from the log, it is gone.
      this.state = blankState(this.state.runId);
      this.violations.length = 0;
      this.#erasedThrough = erasure.runSeq;
      this.#gapsThrough = Math.max(this.#gapsThrough, erasure.runSeq);
      return;
    }
    const { state, violations } = foldWithReport(this.state, events);
    this.state = state;
    this.gap = gap;
    for (const violation of violations) {
      const event = events.find(({ runSeq }) => runSeq === violation.runSeq) as LoggedEvent;
      this.violations.push({ ...violation, event });
    }
  }

  /** The events up to the first jump that nobody has looked into. */
  #beforeGap(page: readonly LoggedEvent[]): { events: readonly LoggedEvent[]; gap: Gap | undefined } {
    let last = this.state.lastEventSeq;
    for (let i = 0; i < page.length; i++) {
      const next = (page[i] as LoggedEvent).runSeq;
      if (next > this.#gapsThrough && detectNonContiguous(last, next).observedNonContiguous)
        return { events: page.slice(0, i), gap: { lastSeq: last, nextSeq: next } };
      last = next;
    }
    return { events: page, gap: undefined };
  }
}

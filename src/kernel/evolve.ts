import { AppError } from '../contracts/errors.ts';
import { apply } from './apply.ts';
import type { RunState } from './state.ts';
import { copyState, type KernelEvent, type Violation } from './work.ts';

/** A stored event: it has its place in the log. */
export interface RecordedEvent extends KernelEvent {
  readonly runSeq: number;
}

/** The state after one more event. The state that was given stays what it was. */
export function evolve(state: RunState, event: RecordedEvent): RunState {
  // Events at or below the watermark are in the state already: reading them again changes nothing.
  if (event.runSeq <= state.lastEventSeq) return state;
  const draft = copyState(state);
  draft.lastEventSeq = event.runSeq;
  apply({ draft, owner: undefined, violations: undefined }, event);
  return draft;
}

/** The state after many events: the same reducer on a private draft, without a version per event. */
export function fold(state: RunState, events: Iterable<RecordedEvent>): RunState {
  return foldWithReport(state, events).state;
}

/** As `fold`, and the events that their state did not allow, for the alert that each of them deserves. */
export function foldWithReport(
  state: RunState,
  events: Iterable<RecordedEvent>,
): { readonly state: RunState; readonly violations: readonly Violation[] } {
  const draft = copyState(state);
  const violations: Violation[] = [];
  const work = { draft, owner: {}, violations };
  let last = 0;
  for (const event of events) {
    if (event.runSeq <= last) {
      throw new AppError('INTERNAL', `Events must be folded in rising runSeq: ${event.runSeq} came after ${last}.`);
    }
    last = event.runSeq;
    if (event.runSeq <= draft.lastEventSeq) continue;
    draft.lastEventSeq = event.runSeq;
    apply(work, event);
  }
  return { state: draft, violations };
}

/** Whether a reader saw a gap. A gap is normal: it asks for a resync and is never a sign of lost data. */
export function detectNonContiguous(lastSeq: number, nextSeq: number): { readonly observedNonContiguous: boolean } {
  return { observedNonContiguous: nextSeq > lastSeq + 1 };
}

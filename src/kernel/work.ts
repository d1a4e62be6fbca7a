import type { RunState } from './state.ts';

/** What the fold reads of an event: a stored record, or a decision that is not stored yet. */
export interface KernelEvent {
  readonly eventType: string;
  readonly eventId?: string;
  readonly stepId?: string | undefined;
  readonly entity?: string | undefined;
  readonly logicalAttemptId: number;
  readonly engineAttemptId?: number | undefined;
  readonly emittedAt: string;
  readonly payload?: Readonly<Record<string, unknown>> | undefined;
  readonly runSeq?: number;
  /** The payload was erased on purpose: what a view needs of it is gone, and no decision may guess it. */
  readonly erased?: boolean;
}

/** An event that its state did not allow. It was ignored, and the run is marked INCONSISTENT. */
export interface Violation {
  readonly runSeq: number | undefined;
  readonly eventId: string | undefined;
  readonly eventType: string;
  readonly stepId?: string;
  readonly prior: string;
  readonly attempted: string;
}

export type Draft = { -readonly [K in keyof RunState]: RunState[K] };

/**
 * One piece of folding: a private draft of the state, and who owns it. With an owner, maps that the draft made are
 * changed in place; without one every change makes a version. It is the same reducer either way.
 */
export interface Work {
  readonly draft: Draft;
  readonly owner: object | undefined;
  readonly violations: Violation[] | undefined;
}

/** Written out, because it happens with every event and a spread of so many fields is several times slower. */
export function copyState(state: RunState): Draft {
  return {
    runId: state.runId,
    retention: state.retention,
    lastEventSeq: state.lastEventSeq,
    run: state.run,
    ordinal: state.ordinal,
    unended: state.unended,
    failedSteps: state.failedSteps,
    inconsistent: state.inconsistent,
    erasedSeq: state.erasedSeq,
    ctx: state.ctx,
    lastResult: state.lastResult,
    handled: state.handled,
    open: state.open,
    done: state.done,
    unrouted: state.unrouted,
    names: state.names,
    tokens: state.tokens,
    loops: state.loops,
    waits: state.waits,
    signals: state.signals,
  };
}

export type Reducer = (work: Work, event: KernelEvent) => void;

/** Policy A: the event changes nothing, the run is marked, the caller is told. */
export function refuse(work: Work, event: KernelEvent, prior: string, attempted: string): void {
  work.draft.inconsistent = true;
  work.violations?.push({
    runSeq: event.runSeq,
    eventId: event.eventId,
    eventType: event.eventType,
    ...(event.stepId === undefined ? {} : { stepId: event.stepId }),
    prior,
    attempted,
  });
}

/** Notes that decisions are no longer possible after this record. Views go on with what is left. */
export function noteErased(work: Work, event: KernelEvent): void {
  if (event.erased && work.draft.erasedSeq === undefined) work.draft.erasedSeq = event.runSeq ?? 0;
}

import { eventRow } from '../contracts/catalogue.ts';
import { isTerminal } from '../contracts/states.ts';
import { isDuplicate, SEEN, statusOfAttempt } from './reduce-step.ts';
import type { RunState } from './state.ts';
import { findStep } from './step-state.ts';
import type { KernelEvent } from './work.ts';

/** What a producer surfaces instead of an event that its state does not allow. */
export interface InvalidTransition {
  readonly invalidTransitionDetected: true;
  readonly expectedState: string;
  readonly actualState: string;
  readonly attemptedEventType: string;
}

type Candidate = Pick<KernelEvent, 'eventType' | 'stepId' | 'logicalAttemptId'>;

/** Layer 1: whether a producer may emit this event on the state that it believes in. Undefined means yes. */
export function checkTransition(state: RunState, event: Candidate): InvalidTransition | undefined {
  const row = eventRow(event.eventType);
  if (!row) return problem(event, 'a type of the catalogue', 'unknown type');
  const { status, seen } = state.run;
  if (row.runMove) {
    // Emitting the same fact again is a retry, and the append authority answers it with the stored record.
    if (seen.includes(`${event.eventType}:${event.logicalAttemptId}`)) return undefined;
    if (row.runMove.from.includes(status)) return undefined;
    return problem(event, row.runMove.from.map((from) => from ?? 'NONE').join(' or '), status ?? 'NONE');
  }
  if (row.stepMove && event.stepId !== undefined) {
    const step = findStep(state, event.stepId);
    const bit = SEEN[event.eventType as keyof typeof SEEN];
    if (step && bit !== undefined && isDuplicate(step, event.logicalAttemptId, bit)) return undefined;
    const actual = statusOfAttempt(step, event.logicalAttemptId);
    if (actual !== row.stepMove.from) return problem(event, row.stepMove.from, actual);
  }
  if (status !== null && isTerminal(status) && !row.afterTerminal)
    return problem(event, 'a run that has not ended', status);
  return undefined;
}

function problem(event: Candidate, expectedState: string, actualState: string): InvalidTransition {
  return { invalidTransitionDetected: true, expectedState, actualState, attemptedEventType: event.eventType };
}

/** The only events that may follow a detected problem, and only where they are valid themselves. */
export function lastWord(state: RunState, event: Candidate): 'StepFailed' | 'RunFailed' | undefined {
  if (event.stepId !== undefined) {
    const step = findStep(state, event.stepId);
    return step?.status === 'RUNNING' && step.attempt === event.logicalAttemptId ? 'StepFailed' : undefined;
  }
  return checkTransition(state, { eventType: 'RunFailed', logicalAttemptId: 1 }) ? undefined : 'RunFailed';
}

/**
 * The memory of a producer: once an entity would have made an invalid move, nothing more is emitted for it, whatever
 * its later events look like by themselves.
 */
export class ProducerGuard {
  readonly #stopped = new Map<string, InvalidTransition>();

  /** The reason why this event must not be emitted, or undefined. */
  check(state: RunState, event: Candidate): InvalidTransition | undefined {
    const entity = event.stepId ?? 'RUN';
    const stopped = this.#stopped.get(entity) ?? this.#stopped.get('RUN');
    if (stopped) return stopped;
    const found = checkTransition(state, event);
    if (found) this.#stopped.set(entity, found);
    return found;
  }
}

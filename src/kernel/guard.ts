import { eventRow } from '../contracts/catalogue.ts';
import { isTerminal } from '../contracts/states.ts';
import type { EventDraft } from './commands.ts';
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

/**
 * The one event that may follow a detected problem, with the four fields that describe it; undefined where it would be
 * invalid itself, and the producer has to fall silent.
 */
export function lastWord(state: RunState, event: Candidate, found: InvalidTransition): EventDraft | undefined {
  const { stepId, logicalAttemptId } = event;
  const message = `${found.attemptedEventType} needs ${found.expectedState}, but the state is ${found.actualState}.`;
  const error = { category: 'internal', code: 'INVALID_TRANSITION', message, retryable: false };
  const payload = { error, ...found };
  if (stepId === undefined) {
    const end = { eventType: 'RunFailed', logicalAttemptId: 1 } as const;
    return checkTransition(state, end) ? undefined : { ...end, payload };
  }
  const step = findStep(state, stepId);
  if (step?.status !== 'RUNNING' || step.attempt !== logicalAttemptId) return undefined;
  return { eventType: 'StepFailed', stepId, logicalAttemptId, payload };
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

import type { ErrorInfo } from '../contracts/values.ts';
import type { CommandOf, WaitOutcome } from './commands.ts';
import type { Deciding } from './deciding.ts';
import { occurrenceEntity, unitEntity } from './entity-path.ts';
import { advanceLoop } from './loops.ts';
import type { StepState, Verdict, WaitState } from './state.ts';

/** The step or iteration is parked: it waits for a person, a time, a child run or the end of a pause. */
export function park(d: Deciding, step: StepState, command: CommandOf<'park'>): void {
  const { type: _type, stepId, attempt, index, engineAttempt, now: _, random: _r, values: _v, ...payload } = command;
  const loop = index === undefined ? undefined : d.draft.loops.get(stepId);
  const waits = index === undefined ? step.waits : (loop?.open.get(index)?.waits ?? 0);
  d.emit('WaitStarted', {
    stepId,
    entity: occurrenceEntity(unitEntity(stepId, index), 'wait', waits + 1),
    attempt,
    engineAttempt,
    payload: { ...payload },
  });
}

export function endWait(d: Deciding, wait: WaitState, outcome: WaitOutcome, said: Record<string, unknown> = {}): void {
  d.emit('WaitEnded', {
    stepId: wait.stepId,
    entity: wait.entity,
    attempt: wait.attempt,
    engineAttempt: wait.engineAttempt,
    payload: { kind: wait.kind, outcome, ...said },
  });
}

/** Ends the open waits of a step, or of one of its iterations, that nobody waits for any more. */
export function closeWaits(d: Deciding, stepId: string, index: number | undefined): void {
  if (d.draft.waits.size === 0) return;
  for (const wait of d.draft.waits.values()) {
    if (wait.stepId === stepId && wait.iteration === index) endWait(d, wait, 'cancelled');
  }
}

const MESSAGES: Record<Verdict, string> = {
  APPROVAL_REJECTED: 'The approval was rejected.',
  APPROVAL_EXPIRED: 'The approval expired.',
};

/** Fails what a person decided against, or let expire. While the run is paused only the end of the wait is recorded. */
export function failByVerdict(d: Deciding, stepId: string): void {
  const { draft } = d;
  const step = draft.open.get(stepId);
  if (step?.status !== 'RUNNING' || draft.run.status !== 'RUNNING') return;
  if (step.verdict) {
    d.emit('StepFailed', {
      stepId,
      attempt: step.attempt,
      payload: { error: verdictError(step.verdict) },
    });
    return;
  }
  const entries = draft.loops.get(stepId)?.open.entries() ?? [];
  let failed = false;
  for (const [index, { verdict }] of entries.sort(([a], [b]) => a - b)) {
    if (!verdict) continue;
    failed = true;
    d.emit('LoopIterationFailed', {
      stepId,
      entity: unitEntity(stepId, index),
      attempt: step.attempt,
      payload: { index, error: verdictError(verdict) },
    });
  }
  if (failed) advanceLoop(d, stepId);
}

function verdictError(code: Verdict): ErrorInfo {
  return { category: 'approval', code, message: MESSAGES[code], retryable: false };
}

import { AppError, type ErrorCode } from '../contracts/errors.ts';
import type { Plan } from '../contracts/plan.ts';
import { isTerminal } from '../contracts/states.ts';
import { abandonAll, advance, catchUp, endAll } from './advance.ts';
import type { Command, CommandOf, Decision } from './commands.ts';
import { compilePlan } from './compile-plan.ts';
import { Deciding } from './deciding.ts';
import { occurrenceEntity } from './entity-path.ts';
import { NeedValues } from './expressions/evaluation.ts';
import { endLoop, isLoopComplete, iterationSettled, loopResolved } from './loops.ts';
import { placeInstance } from './place-tokens.ts';
import { retryRun } from './retry-run.ts';
import { signal } from './signals.ts';
import type { RunState, StepState } from './state.ts';
import { closeWaits, endWait, failByVerdict, park } from './waits.ts';

/**
 * What follows from a command in a state of a run of this plan. Pure: ids, times and jitter are in the command, and the
 * same arguments always give the same answer. Everything that follows is returned together, in the order of the log.
 */
export function decide(plan: Plan, state: RunState, command: Command): Decision {
  if (state.erasedSeq !== undefined) {
    const message = `The payload of event ${state.erasedSeq} was erased, so nothing more can be decided about this run.`;
    return { reject: { code: 'PAYLOAD_ERASED', message } };
  }
  const d = new Deciding(compilePlan(plan), state, command);
  try {
    act(d, command);
    return { events: d.events };
  } catch (thrown) {
    if (thrown instanceof NeedValues) return { need: thrown.refs };
    if (thrown instanceof Refused) return { reject: { code: thrown.code, message: thrown.message } };
    throw thrown;
  }
}

/** The command does not apply: an answer, not an error. */
class Refused extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

const refuse = (code: ErrorCode, message: string): never => {
  throw new Refused(code, message);
};

function act(d: Deciding, command: Command): void {
  switch (command.type) {
    case 'request':
      request(d, command);
      return;
    case 'retryRun':
      if (d.draft.run.status !== null) refuse('RUN_EXISTS', 'The run exists already.');
      carryOver(d, command);
      return;
    case 'queue':
      expect(d, [null, 'PENDING'], 'queued');
      d.emit('RunQueued', { payload: pick(command, ['reason', 'position']) });
      return;
    case 'approve':
      expect(d, [null, 'PENDING'], 'approved');
      d.emit('RunApproved', { payload: pick(command, ['approvedBy', 'approvalId', 'reason']) });
      return;
    case 'start':
      start(d, command);
      return;
    case 'failRun':
      failRun(d, command);
      return;
    case 'signal':
      signal(d, command);
      break;
    case 'cancelGraceOver':
      if (d.draft.run.cancel || d.draft.run.failure) endAll(d);
      break;
    case 'tick':
      catchUp(d);
      break;
    default:
      settle(d, command);
  }
  if (d.draft.run.status !== null && !isTerminal(d.draft.run.status)) advance(d);
}

/** Commands about one step that is under way. */
function settle(
  d: Deciding,
  command: CommandOf<'stepSettled' | 'loopResolved' | 'iterationSettled' | 'loopSettled' | 'park' | 'waitEnded'>,
): void {
  if (command.type === 'waitEnded') {
    const wait =
      d.draft.waits.get(command.entity) ?? refuse('INVALID_TRANSITION', `There is no open wait '${command.entity}'.`);
    endWait(d, wait, command.outcome, pick(command, ['by', 'reason', 'result', 'error']));
    failByVerdict(d, wait.stepId);
    return;
  }
  const step = running(d, command.stepId, command.attempt);
  const loop = d.draft.loops.get(step.stepId);
  switch (command.type) {
    case 'stepSettled':
      stepSettled(d, step, command);
      break;
    case 'loopResolved':
      if (loop) refuse('INVALID_TRANSITION', `The loop of '${step.stepId}' has begun already.`);
      loopResolved(d, step, command);
      break;
    case 'iterationSettled':
      openIteration(d, step, command.index);
      closeWaits(d, step.stepId, command.index);
      iterationSettled(d, step, command);
      break;
    case 'loopSettled':
      if (!loop || !isLoopComplete(loop)) refuse('INVALID_TRANSITION', `The loop of '${step.stepId}' has not ended.`);
      endLoop(d, step.stepId, command.result);
      break;
    case 'park':
      if (command.index !== undefined) openIteration(d, step, command.index);
      park(d, step, command);
  }
}

function openIteration(d: Deciding, step: StepState, index: number): void {
  const loop = d.draft.loops.get(step.stepId);
  // An index that was handed out by the store, but not recorded yet, is at or above `next`.
  const isKnown =
    loop !== undefined &&
    (loop.open.has(index) || (index >= loop.next && index < (loop.count ?? Number.POSITIVE_INFINITY)));
  if (!isKnown) refuse('INVALID_TRANSITION', `Iteration ${index} of '${step.stepId}' is not open.`);
}

function running(d: Deciding, stepId: string, attempt: number): StepState {
  const step = d.draft.open.get(stepId);
  // Steps are made by routing alone; what a worker began by itself has no token, and nothing follows from it.
  if (step && step.cause === undefined) refuse('INVALID_TRANSITION', `Step '${stepId}' was never scheduled.`);
  if (step?.status === 'RUNNING' && step.attempt === attempt) return step;
  const actual = step ? `${step.status} in attempt ${step.attempt}` : 'not open';
  return refuse('INVALID_TRANSITION', `Attempt ${attempt} of step '${stepId}' is not running: the step is ${actual}.`);
}

function expect(d: Deciding, allowed: readonly (string | null)[], what: string): void {
  const { status } = d.draft.run;
  if (!allowed.includes(status))
    refuse('INVALID_TRANSITION', `A run that is ${status ?? 'unknown'} cannot be ${what}.`);
}

function stepSettled(d: Deciding, step: StepState, command: CommandOf<'stepSettled'>): void {
  const { status, ...said } = command.settled;
  const { exhausted: _e, rows: _r, rowResults: _l, ...payload } = said as Record<string, unknown>;
  closeWaits(d, step.stepId, undefined);
  d.emit(status === 'completed' ? 'StepCompleted' : 'StepFailed', {
    stepId: step.stepId,
    attempt: step.attempt,
    engineAttempt: command.engineAttempt,
    payload,
  });
  if (command.set) d.patch(step.stepId, 'task', command.set);
}

function request(d: Deciding, command: CommandOf<'request'>): void {
  if (d.draft.run.status !== null) refuse('RUN_EXISTS', 'The run exists already.');
  d.emit('PlaybookExecutionRequested', { payload: requestPayload(command) });
  evaluateRequest(d, command);
}

const REQUEST_FIELDS = [
  'planRef',
  'context',
  'workload',
  'triggerType',
  'triggerRef',
  'runRequestId',
  'parentRunId',
  'parentStepId',
  'parentEntity',
  'rootRunId',
] as const;

function requestPayload(command: CommandOf<'request' | 'retryRun'>): Record<string, unknown> {
  return pick(command, REQUEST_FIELDS);
}

function evaluateRequest(d: Deciding, command: CommandOf<'request' | 'retryRun'>): void {
  const admission = command.admission ?? { decision: 'accept' as const };
  d.emit('PlaybookRequestEvaluated', { payload: { ...admission } });
  if (admission.decision === 'queue') d.emit('RunQueued', { payload: pick(admission, ['reason']) });
}

function carryOver(d: Deciding, command: CommandOf<'retryRun'>): void {
  const problem = retryRun(d, command, () => {
    d.emit('PlaybookExecutionRequested', {
      payload: {
        ...requestPayload(command),
        retryOf: command.old.runId,
        rootRunId: command.old.run.rootRunId ?? command.old.runId,
        ...(command.from === undefined ? {} : { fromStep: command.from }),
      },
    });
    evaluateRequest(d, command);
  });
  if (problem) refuse(problem.code, problem.message);
}

function start(d: Deciding, command: CommandOf<'start'>): void {
  expect(d, [null, 'PENDING', 'APPROVED'], 'started');
  if (d.draft.run.gate) refuse('INVALID_TRANSITION', 'The plan has not been approved yet.');
  d.emit('RunStarted', { payload: command.started });
  // The first append of a linked retry has said already what runs again.
  if (d.draft.ordinal === 0) {
    placeInstance(d, d.plan.plan.entryStep, { kind: 'entry' }, [], undefined, command.notBefore);
    if (command.notBefore !== undefined) holdBack(d, command.notBefore);
  } else catchUp(d);
  advance(d);
}

/** Overload mode DELAY: the first step is scheduled for later, and the log says why. */
function holdBack(d: Deciding, until: string): void {
  for (const step of d.draft.open.values()) {
    if (step.status !== 'PENDING') continue;
    d.emit('StepDelayed', {
      stepId: step.stepId,
      entity: occurrenceEntity(step.stepId, 'wait', step.waits + 1),
      payload: { until, reason: 'BACKPRESSURE' },
    });
  }
}

/** The run cannot begin or go on at all: its plan is not what was approved, or cannot be read. */
function failRun(d: Deciding, command: CommandOf<'failRun'>): void {
  const { status } = d.draft.run;
  if (status === null || isTerminal(status) || status === 'PAUSED') expect(d, [], 'failed');
  const { error, abandon } = command;
  if (abandon) abandonAll(d, error);
  if (d.draft.unended > 0) refuse('INVALID_TRANSITION', 'Steps are under way; let them end first.');
  const { failedSteps } = d.draft;
  const counted = failedSteps > 0 ? { failedSteps } : {};
  d.emit('RunFailed', { payload: { completedAt: d.now, error, rootCause: { error }, ...counted } });
}

function pick<T extends object>(from: T, keys: readonly (keyof T)[]): Record<string, unknown> {
  const picked: Record<string, unknown> = {};
  for (const key of keys) if (from[key] !== undefined) picked[key as string] = from[key];
  return picked;
}

/** The events, for callers for whom anything else is a defect of theirs. */
export function eventsOf(decision: Decision): Extract<Decision, { events: unknown }>['events'] {
  if ('events' in decision) return decision.events;
  if ('need' in decision) throw new AppError('INTERNAL', `Stored values are missing: ${decision.need.join(', ')}.`);
  throw new AppError(decision.reject.code, decision.reject.message);
}

import { isTerminal, RUN_SUBSTATUSES, type RunStatus, type StepStatus } from '../contracts/states.ts';
import type { OpenIteration, RunState, StepState } from './state.ts';

/** What the open part of a run is doing: everything that substatus and messages are made from. */
interface Activity {
  /** Steps and iterations that a worker holds. */
  readonly inFlight: number;
  /** Steps and iterations that could be taken now. */
  readonly ready: number;
  readonly waitingApproval: number;
  readonly retrying: number;
  /** Waiting for a timer, a child run or the end of a pause. */
  readonly waiting: number;
}

type Doing = keyof Activity;

function activity(state: RunState): Activity {
  const count = { inFlight: 0, ready: 0, waitingApproval: 0, retrying: 0, waiting: 0 };
  const waits = waitsByUnit(state);
  for (const step of state.open.values()) {
    const loop = state.loops.get(step.stepId);
    if (loop && step.status === 'RUNNING') {
      for (const [index, entry] of loop.open.entries())
        count[iterationDoing(entry, waits.get(`${step.stepId}/${index}`))]++;
      if (loop.open.size === 0) count.ready++;
    } else {
      const doing = stepDoing(step, waits.get(step.stepId));
      if (doing) count[doing]++;
    }
  }
  return count;
}

function waitsByUnit(state: RunState): Map<string, Doing> {
  const doing = new Map<string, Doing>();
  for (const wait of state.waits.values()) {
    const unit = wait.iteration === undefined ? wait.stepId : `${wait.stepId}/${wait.iteration}`;
    if (wait.kind === 'approval') doing.set(unit, 'waitingApproval');
    else if (!doing.has(unit)) doing.set(unit, wait.details?.['reason'] === 'RETRY' ? 'retrying' : 'waiting');
  }
  return doing;
}

function iterationDoing(entry: OpenIteration, wait: Doing | undefined): Doing {
  if (wait) return wait;
  return entry.started && !entry.eligible ? 'inFlight' : 'ready';
}

function stepDoing(step: StepState, wait: Doing | undefined): Doing | undefined {
  if (step.status === 'PENDING') return step.delayed?.reason === 'RETRY' ? 'retrying' : 'ready';
  if (step.status !== 'RUNNING') return undefined;
  if (wait) return wait;
  return step.eligible ? 'ready' : 'inFlight';
}

/**
 * The substatus, or undefined. What only an engine knows (CONTINUE_AS_NEW, RECOVERING, or a word of its own) comes in
 * as `engine`; where several hold, the order of the contract decides, and a foreign word comes last.
 */
export function substatus(state: RunState, engine?: string): string | undefined {
  const { status, gate } = state.run;
  const holding = new Set<string>();
  if (engine !== undefined && (status === null || !isTerminal(status))) holding.add(engine);
  if (status === 'PENDING' && gate) holding.add('WAITING_APPROVAL');
  if (status === 'PAUSED' && activity(state).inFlight > 0) holding.add('DRAINING');
  if (status === 'RUNNING') {
    const doing = activity(state);
    const busy = doing.inFlight + doing.ready + doing.waiting > 0;
    if (!busy && doing.waitingApproval > 0) holding.add('WAITING_APPROVAL');
    if (!busy && doing.retrying > 0) holding.add('RETRYING');
  }
  return RUN_SUBSTATUSES.find((word) => holding.has(word)) ?? [...holding][0];
}

/** A line for people, where there is something to say beyond the status. */
export function statusMessage(state: RunState): string | undefined {
  if (state.run.status !== 'PAUSED') return undefined;
  const { inFlight } = activity(state);
  if (inFlight === 0) return 'Workflow paused.';
  return `Workflow paused. Waiting for ${inFlight} in-flight task${inFlight === 1 ? '' : 's'} to complete.`;
}

export const RUN_WORDS = [
  'queued',
  'running',
  'waiting_approval',
  'succeeded',
  'failed_retryable',
  'failed_terminal',
  'canceled',
] as const;
export type RunWord = (typeof RUN_WORDS)[number];

/** The queue's word for a run, for every status and every substatus, also one that this version does not know. */
export function runWord(status: RunStatus, substatus?: string): RunWord {
  switch (status) {
    case 'PENDING':
    case 'APPROVED':
      return 'queued';
    case 'COMPLETED':
      return 'succeeded';
    case 'FAILED':
      return 'failed_terminal';
    case 'CANCELLED':
      return 'canceled';
    case 'PAUSED':
      return 'running';
    case 'RUNNING':
      if (substatus === 'WAITING_APPROVAL') return 'waiting_approval';
      return substatus === 'RETRYING' ? 'failed_retryable' : 'running';
  }
}

export const STEP_WORDS = [
  'ready',
  'running',
  'waiting_approval',
  'succeeded',
  'failed_retryable',
  'failed_terminal',
  'canceled',
] as const;
export type StepWord = (typeof STEP_WORDS)[number];

export interface StepSituation {
  readonly status: StepStatus;
  /** The code of the error or of the skip. */
  readonly code?: string | undefined;
  readonly waitingApproval?: boolean;
  readonly waitingRetry?: boolean;
  /** A worker holds the step. Where nothing is known about leases, a RUNNING step that is not eligible is held. */
  readonly leased?: boolean;
}

/** The queue's word for a step. */
export function stepWord(step: StepSituation): StepWord {
  switch (step.status) {
    case 'PENDING':
      return step.waitingRetry ? 'failed_retryable' : 'ready';
    case 'RUNNING':
      if (step.waitingApproval) return 'waiting_approval';
      if (step.waitingRetry) return 'failed_retryable';
      return step.leased === false ? 'ready' : 'running';
    case 'SUCCESS':
      return 'succeeded';
    case 'SKIPPED':
      return step.code === 'CANCELLED' ? 'canceled' : 'succeeded';
    case 'FAILED':
      if (step.code === 'CANCELLED') return 'canceled';
      return step.waitingRetry ? 'failed_retryable' : 'failed_terminal';
  }
}

/** The situation of a step as the log tells it. Who knows the lease puts it in its place. */
export function stepSituation(state: RunState, step: StepState): StepSituation {
  // Iterations wait by themselves: the step of a loop goes on while one of them is parked.
  const waits = state.waits.values().filter((wait) => wait.stepId === step.stepId && wait.iteration === undefined);
  return {
    status: step.status,
    code: step.error?.code ?? step.skipCode,
    waitingApproval: waits.some((wait) => wait.kind === 'approval'),
    waitingRetry: step.delayed?.reason === 'RETRY' || waits.some((wait) => wait.details?.['reason'] === 'RETRY'),
    // The leases of a loop are those of its iterations: the step itself is running until it ended.
    leased: !step.eligible,
  };
}

import { isTerminal } from '../contracts/states.ts';
import { cancelled, catchUp } from './advance.ts';
import type { CommandOf } from './commands.ts';
import type { Deciding } from './deciding.ts';
import { scheduleAgain } from './route-step.ts';
import type { StepState } from './state.ts';
import { endWait } from './waits.ts';

type Signal = CommandOf<'signal'>;

interface Handler {
  /** Why the state does not allow it, or undefined. */
  readonly refuse: (d: Deciding, signal: Signal) => string | undefined;
  /** What follows, after SignalAccepted. */
  readonly act: (d: Deciding, signal: Signal) => void;
}

/** The signals that the kernel acts on. Others are refused with a reason until they have a row here. */
const SIGNALS: Readonly<Record<string, Handler>> = {
  PAUSE: {
    refuse: (d) => {
      if (d.draft.run.cancel) return 'the run is being cancelled';
      return d.draft.run.status === 'RUNNING' ? undefined : `a run that is ${word(d)} cannot be paused`;
    },
    act: (d, signal) => d.emit('RunPaused', { attempt: d.draft.run.pauses + 1, payload: said(signal) }),
  },
  RESUME: {
    refuse: (d) => {
      if (d.draft.run.cancel) return 'the run is being cancelled';
      return d.draft.run.status === 'PAUSED' ? undefined : `a run that is ${word(d)} cannot be resumed`;
    },
    act: (d, signal) => {
      d.emit('RunResumed', { attempt: d.draft.run.resumes + 1, payload: said(signal) });
      const holds = d.draft.waits.values().filter((wait) => wait.kind === 'hold');
      for (const wait of holds.sort((a, b) => (a.entity < b.entity ? -1 : 1))) endWait(d, wait, 'done');
      catchUp(d);
    },
  },
  CANCEL: {
    refuse: (d) => (d.draft.run.cancel ? 'the run is being cancelled already' : undefined),
    // Everything else follows from the accepted signal.
    act: (d) => {
      const { status } = d.draft.run;
      if (status !== 'RUNNING' && status !== 'PAUSED') cancelled(d);
    },
  },
  RETRY_STEP: {
    refuse: (d, signal) => {
      const step = target(d, signal);
      if (!step) return noStep(signal);
      if (d.draft.run.cancel) return 'the run is being cancelled';
      if (step.status !== 'FAILED') return `step '${step.stepId}' is ${step.status}, not FAILED`;
      return undefined;
    },
    act: (d, signal) => {
      const step = target(d, signal) as StepState;
      const failedTheRun = d.draft.run.failure?.stepId === step.stepId;
      scheduleAgain(d, step, 'signal', 0);
      // What was aborted because this step had failed is wanted again.
      if (failedTheRun) for (const other of aborted(d)) scheduleAgain(d, other, 'signal', 0);
    },
  },
  SKIP_STEP: {
    refuse: (d, signal) => {
      const step = target(d, signal);
      if (!step) return noStep(signal);
      if (step.status !== 'PENDING') return `step '${step.stepId}' is ${step.status}, not PENDING`;
      return undefined;
    },
    act: (d, signal) => {
      const step = target(d, signal) as StepState;
      const reason = signal.parameters?.['reason'];
      d.emit('StepSkipped', {
        stepId: step.stepId,
        attempt: step.attempt,
        payload: {
          reason: typeof reason === 'string' && reason ? reason : 'Skipped by a signal.',
          code: 'SKIPPED_BY_SIGNAL',
        },
      });
    },
  },
};

export function signal(d: Deciding, command: Signal): void {
  const { signals, run } = d.draft;
  // The same signal again was answered before.
  if (signals.has(command.signalId)) return;
  const handler = Object.hasOwn(SIGNALS, command.signalType) ? SIGNALS[command.signalType] : undefined;
  if (command.denied) {
    reject(d, command, 'authorization', command.denied.code, command.denied.reason);
  } else if (!handler) {
    reject(d, command, 'validation', 'SIGNAL_REJECTED', `There is no signal ${command.signalType}.`);
  } else if (run.status === null) {
    reject(d, command, 'validation', 'SIGNAL_REJECTED', NEVER_REQUESTED);
  } else if (isTerminal(run.status)) {
    reject(d, command, 'validation', 'SIGNAL_REJECTED', `The run is ${word(d)}.`);
  } else {
    const problem = handler.refuse(d, command);
    if (problem !== undefined) reject(d, command, 'validation', 'SIGNAL_REJECTED', `It cannot be done: ${problem}.`);
    else {
      d.emit('SignalAccepted', { entity: `signal/${command.signalId}`, payload: facts(command) });
      handler.act(d, command);
    }
  }
}

function reject(d: Deciding, command: Signal, rejectedBy: string, code: string, reason: string): void {
  const { parameters: _parameters, decision: _decision, ...payload } = facts(command);
  d.emit('SignalRejected', {
    entity: `signal/${command.signalId}`,
    payload: { ...payload, rejectedBy, code, reason },
  });
}

function facts({ signalId, signalType, by, role, stepId, parameters, decision }: Signal): Record<string, unknown> {
  return {
    signalId,
    signalType,
    ...(by === undefined ? {} : { by }),
    ...(role === undefined ? {} : { role }),
    ...(stepId === undefined ? {} : { stepId }),
    ...(parameters === undefined ? {} : { parameters }),
    ...(decision === undefined ? {} : { decision }),
  };
}

function said({ signalId, by, parameters }: Signal): Record<string, unknown> {
  const reason = parameters?.['reason'];
  return {
    signalId,
    ...(by === undefined ? {} : { by }),
    ...(typeof reason === 'string' ? { reason } : {}),
  };
}

function aborted(d: Deciding): StepState[] {
  const steps = d.draft.open.values().filter((step) => (step.error?.code ?? step.skipCode) === 'CANCELLED');
  return steps.sort((a, b) => a.ordinal - b.ordinal);
}

const NEVER_REQUESTED =
  'The log does not say that anybody asked for this run: it was written by hand, no engine works on it, and nothing can be ended.';
const noStep = ({ stepId }: Signal): string =>
  stepId === undefined ? 'the signal names no step' : `the run has no open step '${stepId}'`;
const word = (d: Deciding): string => d.draft.run.status ?? 'unknown';
const target = (d: Deciding, { stepId }: Signal): StepState | undefined =>
  stepId === undefined ? undefined : d.draft.open.get(stepId);

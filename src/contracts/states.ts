/** The states of runs and steps and every transition between them; nothing else in the code lists them. */
export const RUN_STATUSES = ['PENDING', 'APPROVED', 'RUNNING', 'PAUSED', 'COMPLETED', 'FAILED', 'CANCELLED'] as const;
export type RunStatus = (typeof RUN_STATUSES)[number];

export const TERMINAL_RUN_STATUSES: readonly RunStatus[] = ['COMPLETED', 'FAILED', 'CANCELLED'];
export const isTerminal = (status: RunStatus): boolean => TERMINAL_RUN_STATUSES.includes(status);

export const STEP_STATUSES = ['PENDING', 'RUNNING', 'SUCCESS', 'FAILED', 'SKIPPED'] as const;
export type StepStatus = (typeof STEP_STATUSES)[number];

/** The canonical substatus words, strongest first: when several hold, the first one is shown. */
export const RUN_SUBSTATUSES = ['DRAINING', 'CONTINUE_AS_NEW', 'RECOVERING', 'WAITING_APPROVAL', 'RETRYING'] as const;

/** A move of the run: from which states, to which. `null` as a source is the run that does not exist yet. */
export interface RunMove {
  readonly from: readonly (RunStatus | null)[];
  readonly to: RunStatus;
}

/** A move of one (stepId, logicalAttemptId). Every attempt begins at PENDING. */
export interface StepMove {
  readonly from: StepStatus;
  readonly to: StepStatus;
}

/**
 * What the workflow and its activities tell each other. It all enters Temporal's history, so it holds names and times and
 * nothing else: no plan, no value, no secret. Recorded histories are replayed by later versions: fields are only added.
 */
export const WORKFLOW = 'runledgerRun';
export const LOOK_SIGNAL = 'look';

/** A unit that is to be taken. */
export interface OpenUnit {
  readonly unit: string;
  /** Not before this time, in milliseconds of the epoch. */
  readonly due?: number;
  /** How often it was tried by executions before this one. */
  readonly tried?: number;
  /** Somebody holds it at this moment. */
  readonly taken?: boolean;
}

/** What there is to do after an activity. */
export interface Answer {
  readonly units: readonly OpenUnit[];
  /** The run has ended. */
  readonly ended?: boolean;
  /** The run is being stopped: whoever runs a unit of it is told so. */
  readonly stop?: boolean;
  /** There is more than one answer holds: ask again from this unit on. */
  readonly more?: string;
  /** Another run waits for the end of this one. */
  readonly parent?: { readonly workflowId: string };
}

export interface UnitRequest {
  readonly runId: string;
  readonly unit: string;
  readonly tried?: number;
  /** The ordinal of the workflow execution in its chain. */
  readonly execution: number;
}

export interface LookRequest {
  readonly runId: string;
  readonly after?: string;
}

export interface CancelRequest {
  readonly runId: string;
  readonly signalId: string;
}

/** The activities, as the workflow calls them. */
export interface RunActivities {
  doUnit(request: UnitRequest): Promise<Answer>;
  look(request: LookRequest): Promise<Answer>;
  cancelRun(request: CancelRequest): Promise<void>;
}

/** Something has changed in the log that the workflow did not do itself. The same id twice is one signal. */
export interface LookSignal {
  readonly id: string;
  /** Nobody decided anything: somebody found work that nobody takes. What is on its way is left alone. */
  readonly sweep?: boolean;
}

/** Chosen when the run is placed; an execution keeps them for its whole chain, since its history depends on them. */
export interface WorkflowLimits {
  /** Activities of one run at a time. The server takes 2,000. */
  readonly maxInFlight: number;
  /** A new execution begins at the latest after so many events or bytes of history. */
  readonly maxEvents: number;
  readonly maxBytes: number;
  /** How long the old execution waits for activities in flight; then the next one takes them over. */
  readonly handOverMs: number;
  readonly heartbeatMs: number;
  /** How long one activity may take in all. What a step may take is said by its plan, and kept by the worker. */
  readonly activityMs: number;
  readonly retryMs: number;
  readonly maxRetryMs: number;
  /** How long a run with nothing to do waits before it asks whether that is still so. */
  readonly idleMs: number;
}

/** The input of an execution: open work and signals that nobody has handled, and nothing else. */
export interface RunInput {
  readonly runId: string;
  readonly open: readonly OpenUnit[];
  readonly signals?: readonly LookSignal[];
  /** The open work is not all there is: the store knows. */
  readonly look?: boolean;
  readonly execution?: number;
  readonly limits: WorkflowLimits;
}

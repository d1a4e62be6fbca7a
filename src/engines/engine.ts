import type { CapabilityRow } from '../compiler/capability-matrix.ts';
import type { RunStatusSnapshot } from '../contracts/snapshot.ts';
import type { EngineRunRef, PlanRef, RunContext } from '../contracts/values.ts';

export interface SignalRequest {
  /** The client's own id: the same signal twice is one signal. */
  readonly signalId: string;
  /** PAUSE, RESUME, CANCEL, RETRY_STEP, SKIP_STEP; any other is refused and recorded. */
  readonly type: string;
  readonly by?: string;
  readonly role?: string;
  readonly stepId?: string;
  readonly parameters?: Record<string, unknown>;
}

export interface SignalAnswer {
  readonly accepted: boolean;
  readonly code?: string;
  readonly reason?: string;
}

/** What a person says of a write whose outcome was lost. */
export interface SettleRequest {
  /** It happened, and gave this result; it is to be sent again; or its step is to fail. */
  readonly answer: 'happened' | 'send-again' | 'give-up';
  readonly result?: unknown;
  /** The step, or `step/index` for an iteration. May be left out where only one write is open. */
  readonly step?: string;
  readonly by?: string;
  readonly reason?: string;
}

/** Who asks. Absent: the process itself, which may see every tenant. */
export interface Caller {
  readonly tenantId: string;
}

export interface StartOptions {
  /** Values merged over the plan's workload. */
  readonly workload?: Record<string, unknown>;
  readonly triggeredBy?: string;
  readonly trigger?: { readonly type: 'manual' | 'schedule' | 'webhook' | 'api'; readonly ref?: string };
  readonly runRequestId?: string;
  readonly parent?: {
    readonly runId: string;
    readonly stepId: string;
    readonly entity: string;
    /** The child of the same call in the first run of the parent's chain of retries, where that is another one. */
    readonly rootRunId?: string;
  };
  /** Overload mode DELAY: the first step is not handed out before. */
  readonly notBefore?: string;
}

/** What schedules and retries. It decides nothing and keeps no truth: status always comes from the store. */
export interface Engine {
  startRun(planRef: PlanRef, context: RunContext, options?: StartOptions): Promise<EngineRunRef>;
  cancelRun(ref: EngineRunRef, caller?: Caller): Promise<void>;
  getRunStatus(ref: EngineRunRef, caller?: Caller): Promise<RunStatusSnapshot>;
  signal(ref: EngineRunRef, request: SignalRequest, caller?: Caller): Promise<SignalAnswer>;
  capabilities(): CapabilityRow;
}

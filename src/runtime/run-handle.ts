import { randomUUID } from 'node:crypto';
import type { LedgerRecord } from '../contracts/envelope.ts';
import { AppError } from '../contracts/errors.ts';
import type { RunSnapshot } from '../contracts/snapshot.ts';
import type { EngineRunRef, ErrorInfo, StoredValue } from '../contracts/values.ts';
import type { SignalAnswer } from '../engines/engine.ts';
import { readSnapshot } from '../projector/read-snapshot.ts';
import type { PostgresStore } from '../store/postgres-store.ts';
import type { ArtifactStore } from '../tools/tool.ts';
import { loadValue } from '../worker/store-result.ts';
import type { EngineRuntime } from './engine-parts.ts';
import { endOf, failureOf, followToEnd, storedResult } from './run-end.ts';

/** How a run ended. A failure is a value here. */
export interface RunEnd {
  readonly runId: string;
  readonly status: 'COMPLETED' | 'FAILED' | 'CANCELLED';
  /** What the last step gave; absent where the run did not complete. */
  readonly result?: unknown;
  /** What failed first, and in which step. */
  readonly error?: ErrorInfo & { readonly stepId?: string };
}

export type SignalName = 'PAUSE' | 'RESUME' | 'CANCEL' | 'RETRY_STEP' | 'SKIP_STEP';

export interface SignalDetails {
  /** The step that RETRY_STEP and SKIP_STEP mean. */
  readonly stepId?: string;
  /** Your own id: the same signal sent twice is one signal. */
  readonly signalId?: string;
  /** Who asks, for the log. */
  readonly by?: string;
  /** Why, for the log. */
  readonly reason?: string;
}

export interface FollowOptions {
  /** Only events after this one. */
  readonly afterSeq?: number;
  /** Stops waiting; the run is not touched. */
  readonly signal?: AbortSignal;
}

/** One run. It holds nothing open: a handle may be kept or dropped, and made again from the run's id. */
export interface Run {
  readonly runId: string;
  /** Waits for the end, however the run ends. */
  ended(options?: Pick<FollowOptions, 'signal'>): Promise<RunEnd>;
  /**
   * Waits for the end and gives the result. Throws RUN_FAILED with `details.error`, or CANCELLED. With a step's name it
   * gives what that step gave, and does not wait.
   */
  result(step?: string): Promise<unknown>;
  /** The state of the run and its steps, now or after the event `asOf`. */
  status(options?: { readonly asOf?: number }): Promise<RunSnapshot>;
  /** Every event from the first on, then new ones as they come, until the run has ended. */
  events(options?: FollowOptions): AsyncIterable<LedgerRecord>;
  /** Asks something of the run. A signal that its state does not allow is answered with `accepted: false`. */
  signal(name: SignalName, details?: SignalDetails): Promise<SignalAnswer>;
  /** Hands out no more steps; those in flight go on. Throws SIGNAL_REJECTED. */
  pause(details?: SignalDetails): Promise<void>;
  /** Goes on with a run that was paused, or whose work was lost in a crash. Throws SIGNAL_REJECTED. */
  resume(details?: SignalDetails): Promise<void>;
  /** Ends the run. Throws SIGNAL_REJECTED. */
  cancel(details?: SignalDetails): Promise<void>;
}

export interface RunPorts {
  readonly store: PostgresStore;
  readonly artifacts: ArtifactStore;
  readonly runtime: EngineRuntime;
  /** Aborts when the runtime is closed. */
  readonly closed: AbortSignal;
}

export class RunHandle implements Run {
  readonly runId: string;
  readonly #ports: RunPorts;
  readonly #ref: EngineRunRef;

  constructor(ports: RunPorts, runId: string) {
    this.runId = runId;
    this.#ports = ports;
    this.#ref = ports.runtime.engine.refOf({ runId });
  }

  async ended(options: Pick<FollowOptions, 'signal'> = {}): Promise<RunEnd> {
    const end = await endOf(this.#ports.store, this.runId, this.#until(options.signal));
    if (!end) throw this.#leftBy(options.signal);
    const stored = end.payload?.['result'] as StoredValue | undefined;
    const error = failureOf(end);
    return {
      runId: this.runId,
      status: STATUS_OF[end.eventType as keyof typeof STATUS_OF],
      ...(stored === undefined ? {} : { result: await loadValue(this.#ports.artifacts, stored) }),
      ...(error === undefined ? {} : { error }),
    };
  }

  async result(step?: string): Promise<unknown> {
    const { store, artifacts } = this.#ports;
    if (step !== undefined) return loadValue(artifacts, await storedResult(store, this.runId, step));
    const { status, result, error } = await this.ended();
    if (status === 'COMPLETED') return result ?? null;
    if (status === 'CANCELLED')
      throw new AppError('CANCELLED', `Run ${this.runId} was cancelled.`, { runId: this.runId });
    const where = error?.stepId === undefined ? '' : ` in step ${error.stepId}`;
    const why = error === undefined ? '' : `: ${error.code}${where}: ${error.message}`;
    throw new AppError('RUN_FAILED', `Run ${this.runId} failed${why}`, { runId: this.runId, error });
  }

  status(options: { readonly asOf?: number } = {}): Promise<RunSnapshot> {
    return readSnapshot(this.#ports.store, this.runId, options);
  }

  async *events(options: FollowOptions = {}): AsyncGenerator<LedgerRecord, void> {
    const signal = this.#until(options.signal);
    const ended = yield* followToEnd(this.#ports.store, this.runId, { ...options, signal });
    // Who closes the runtime must not look like the end of the run to somebody else.
    if (!ended && !options.signal?.aborted) throw this.#leftBy(undefined);
  }

  #until(signal: AbortSignal | undefined): AbortSignal {
    return signal ? AbortSignal.any([signal, this.#ports.closed]) : this.#ports.closed;
  }

  #leftBy(signal: AbortSignal | undefined): unknown {
    if (signal?.aborted) return signal.reason;
    return new AppError('STORE_UNAVAILABLE', `The runtime was closed before run ${this.runId} had ended.`, {
      runId: this.runId,
    });
  }

  async signal(name: SignalName, details: SignalDetails = {}): Promise<SignalAnswer> {
    const { signalId = randomUUID(), reason, ...more } = details;
    return this.#ports.runtime.engine.signal(this.#ref, {
      signalId,
      type: name,
      ...more,
      ...(reason === undefined ? {} : { parameters: { reason } }),
    });
  }

  async pause(details?: SignalDetails): Promise<void> {
    await this.#insist('PAUSE', details);
  }

  async resume(details?: SignalDetails): Promise<void> {
    const run = await this.#ports.store.findRun(this.runId);
    // Work that a crash lost is put back; this changes nothing where none is missing.
    if (run?.status === 'RUNNING') await this.#ports.runtime.engine.repair(this.runId);
    else await this.#insist('RESUME', details);
  }

  async cancel(details?: SignalDetails): Promise<void> {
    await this.#insist('CANCEL', details);
  }

  async #insist(name: SignalName, details: SignalDetails | undefined): Promise<void> {
    const { accepted, reason } = await this.signal(name, details);
    if (accepted) return;
    throw new AppError('SIGNAL_REJECTED', reason ?? `The run does not take ${name} now.`, { runId: this.runId });
  }
}

const STATUS_OF = { RunCompleted: 'COMPLETED', RunFailed: 'FAILED', RunCancelled: 'CANCELLED' } as const;

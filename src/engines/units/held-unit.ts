import { AppError } from '../../contracts/errors.ts';
import type { Lease } from '../../store/work.ts';
import { parseUnit, type UnitKey } from '../../store/work-unit.ts';

/** A unit that this process holds, and the means to take it away from whoever runs it. */
export class HeldUnit implements Lease {
  readonly runKey: number;
  readonly runId: string;
  unit: string;
  fence: number;
  deliveries: number;
  key: UnitKey | undefined;
  /** By the monotonic clock; never later than the database's end of the lease. */
  leaseUntil: number;
  /** The attempt that events of the unit carry, where the engine counts its own. */
  readonly #attempt: number | undefined;
  /** Which execution of the engine this is, such as one of a chain that continued each other. */
  readonly execution: number;
  readonly #controller = new AbortController();

  constructor(
    lease: Lease & { runKey: number; runId: string; deliveries: number },
    leaseUntil: number,
    engine: { readonly attempt?: number; readonly execution?: number } = {},
  ) {
    this.#attempt = engine.attempt;
    this.execution = engine.execution ?? 1;
    this.runKey = lease.runKey;
    this.runId = lease.runId;
    this.unit = lease.unit;
    this.fence = lease.fence;
    this.deliveries = lease.deliveries;
    this.key = parseUnit(lease.unit);
    this.leaseUntil = leaseUntil;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The platform counts anew after a wait; the row counts on, and so does the log. */
  get engineAttempt(): number {
    return Math.max(this.#attempt ?? 1, this.deliveries);
  }

  /** The unit ended and this one follows it, under a lease of its own. */
  moveTo(lease: Lease, leaseUntil: number): void {
    this.unit = lease.unit;
    this.fence = lease.fence;
    this.deliveries = lease.deliveries ?? 1;
    this.key = parseUnit(lease.unit);
    this.leaseUntil = leaseUntil;
  }

  /** The run is being stopped: the step ends, and says so. */
  stop(): void {
    if (!this.signal.aborted) this.#controller.abort(new AppError('CANCELLED', 'The run is being stopped.'));
  }

  /** Somebody else goes on with it: nothing more may be recorded. */
  lose(): void {
    if (!this.signal.aborted) this.#controller.abort(new AppError('LEASE_LOST', 'The lease was lost.'));
  }
}

import { AppError } from '../../contracts/errors.ts';
import { faultPoint } from '../../lib/fault-point.ts';
import type { ClaimScope, Lease } from '../../store/work.ts';
import { doUnit } from '../units/do-unit.ts';
import { HeldUnit } from '../units/held-unit.ts';
import { LeaseKeeper } from '../units/lease-keeper.ts';
import type { UnitPorts } from '../units/unit-ports.ts';

export interface NativeWorkerOptions {
  /** Units that run at once. */
  readonly concurrency?: number;
  /** The poll behind the notifications. */
  readonly pollMs?: number;
  /** How long a stopping worker lets its units finish before it hands them back. */
  readonly drainMs?: number;
  /** What it takes. Everything by default. */
  readonly scope?: ClaimScope | undefined;
  readonly onError?: (error: unknown, unit: string) => void;
}

const LONGEST_LOOK_MS = 60_000;

/** Takes units of work and does them, until it is stopped. */
export class NativeWorker {
  readonly #ports: UnitPorts;
  readonly #options: Required<NativeWorkerOptions>;
  readonly #leases: LeaseKeeper;
  readonly #running = new Set<Promise<void>>();
  #claiming: Promise<void> | undefined;
  #claimAgain = false;
  #poll: NodeJS.Timeout | undefined;
  #unsubscribe: (() => void) | undefined;
  readonly #looks = new Set<NodeJS.Timeout>();
  #state: 'idle' | 'running' | 'stopping' = 'idle';

  constructor(ports: Omit<UnitPorts, 'room' | 'isStopping'>, options: NativeWorkerOptions = {}) {
    this.#options = {
      concurrency: options.concurrency ?? 64,
      pollMs: options.pollMs ?? 1000,
      drainMs: options.drainMs ?? 5000,
      scope: options.scope,
      onError: options.onError ?? (() => {}),
    };
    this.#ports = { ...ports, room: () => Math.max(1, this.room), isStopping: () => this.#state !== 'running' };
    this.#leases = new LeaseKeeper({
      ...ports,
      onError: this.#options.onError,
      freed: () => {
        ports.signals.work();
        this.claim();
      },
    });
  }

  /** How many more units this worker would take. */
  get room(): number {
    return this.#state === 'running' ? Math.max(0, this.#options.concurrency - this.#leases.size) : 0;
  }

  get owner(): string {
    return this.#ports.owner;
  }

  start(): void {
    if (this.#state !== 'idle') return;
    this.#state = 'running';
    this.#unsubscribe = this.#ports.signals.onWork(() => this.claim());
    this.#leases.start();
    this.#poll = setInterval(() => this.claim(), this.#options.pollMs);
    this.claim();
  }

  /** Takes over units that were leased to this worker by whoever made them. */
  take(leases: readonly (Lease & { runKey: number; runId: string; deliveries?: number })[]): void {
    const until = performance.now() + this.#ports.leaseMs;
    const units = leases.map((lease) => new HeldUnit({ deliveries: 1, ...lease }, until));
    const fit = this.#state === 'running' ? this.room : 0;
    for (const unit of units.slice(0, fit)) this.#begin(unit);
    if (units.length > fit) void this.#release(units.slice(fit));
  }

  /** Looks for work now. */
  claim(): void {
    if (this.#state !== 'running') return;
    if (this.#claiming) {
      this.#claimAgain = true;
      return;
    }
    this.#claiming = this.#claim()
      .catch((error: unknown) => this.#options.onError(error, 'claim'))
      .finally(() => {
        this.#claiming = undefined;
        if (this.#claimAgain) {
          this.#claimAgain = false;
          this.claim();
        }
      });
  }

  /** Looks for work at that time. What is further off is found by the poll, or by whoever lives then. */
  lookAt(millis: number): void {
    const wait = millis - Date.now();
    if (this.#state !== 'running' || wait > LONGEST_LOOK_MS) return;
    // The database's clock decides what is due, and may be a little behind.
    const timer = setTimeout(() => {
      this.#looks.delete(timer);
      this.claim();
    }, Math.max(0, wait) + 3);
    this.#looks.add(timer);
  }

  async #claim(): Promise<void> {
    const { work, owner, leaseMs } = this.#ports;
    while (this.room > 0) {
      const from = performance.now();
      const limit = this.room;
      const claimed = await work.claim(owner, { limit, leaseMs, scope: this.#options.scope });
      await faultPoint('claim.after');
      for (const unit of claimed) {
        const held = new HeldUnit(unit, from + leaseMs);
        if (unit.stop) held.stop();
        this.#begin(held);
      }
      if (claimed.length < limit) return;
    }
  }

  #begin(held: HeldUnit): void {
    const driving = this.#drive(held);
    this.#running.add(driving);
    void driving.finally(() => this.#running.delete(driving));
  }

  /** Does a unit and then, in its place, what follows from it; what there is no room for is handed back. */
  async #drive(first: HeldUnit): Promise<void> {
    let next: HeldUnit | undefined = first;
    while (next) {
      const held: HeldUnit = next;
      next = undefined;
      this.#leases.add(held);
      let leases: readonly Lease[] = [];
      try {
        leases = await doUnit(this.#ports, held);
      } catch (error) {
        await this.#failed(held, error);
      } finally {
        this.#leases.delete(held);
      }
      const until = performance.now() + this.#ports.leaseMs;
      const { runKey, runId } = held;
      const units = leases.map((lease) => new HeldUnit({ deliveries: 1, ...lease, runKey, runId }, until));
      if (this.#state === 'running') next = units.shift();
      if (units.length > 0) this.#takeOver(units);
    }
    if (this.#state === 'running' && this.#claimAgain === false && this.room === 1) this.claim();
  }

  #takeOver(units: HeldUnit[]): void {
    const fit = units.splice(0, Math.max(0, this.room - 1));
    for (const unit of fit) this.#begin(unit);
    if (units.length > 0) void this.#release(units);
  }

  async #release(units: readonly HeldUnit[]): Promise<void> {
    try {
      await this.#ports.work.release(units);
      this.#ports.signals.work();
    } catch (error) {
      this.#options.onError(error, 'release');
    }
  }

  /** Nothing was recorded about the unit's end: it is delivered again, later each time. */
  async #failed(held: HeldUnit, error: unknown): Promise<void> {
    const code = error instanceof AppError ? error.code : undefined;
    if (code === 'LEASE_LOST') return;
    this.#ports.views.forget(held.runId);
    this.#options.onError(error, held.unit);
    const delayMs = Math.min(60_000, 250 * 2 ** Math.min(held.deliveries, 8));
    const message = error instanceof Error ? error.message : String(error);
    await this.#ports.work.release([held], { delayMs, error: message.slice(0, 2000) }).catch(() => {});
  }

  /** Stops taking work, lets units finish for a while, and hands the rest back at once. */
  async stop(drainMs = this.#options.drainMs): Promise<void> {
    if (this.#state !== 'running') return;
    this.#state = 'stopping';
    clearInterval(this.#poll);
    for (const timer of this.#looks) clearTimeout(timer);
    this.#looks.clear();
    this.#unsubscribe?.();
    await this.#claiming;
    const drained = Promise.allSettled([...this.#running]);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<'late'>((resolve) => {
      timer = setTimeout(() => resolve('late'), drainMs);
    });
    if ((await Promise.race([drained, late])) === 'late') {
      await this.#leases.handBack();
      this.#ports.signals.work();
      await Promise.race([drained, new Promise((resolve) => setTimeout(resolve, 1000))]);
    }
    clearTimeout(timer);
    await this.#leases.stop();
    this.#state = 'idle';
  }
}

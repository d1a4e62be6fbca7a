import type { WorkStore } from '../../store/work.ts';
import type { WorkSignals } from '../../store/work-signals.ts';
import type { HeldUnit } from './held-unit.ts';
import { deadOwners, hostTagOf } from './worker-name.ts';

export interface LeaseKeeperPorts {
  readonly work: WorkStore;
  readonly signals: WorkSignals;
  readonly owner: string;
  readonly leaseMs: number;
  readonly onError: (error: unknown, what: string) => void;
  /** Leases of dead workers were handed back. */
  readonly freed?: () => void;
}

/** How often a worker says that it lives, and looks whether others of its host do. */
const CHECK_IN_MS = 5000;

/** Keeps the leases of the units that a process holds, and tells their holders when they end or must stop. */
export class LeaseKeeper {
  readonly #ports: LeaseKeeperPorts;
  readonly #held = new Set<HeldUnit>();
  #renewal: NodeJS.Timeout | undefined;
  #checkInTimer: NodeJS.Timeout | undefined;
  #checkingIn: Promise<void> | undefined;
  #unsubscribe: (() => void) | undefined;

  constructor(ports: LeaseKeeperPorts) {
    this.#ports = ports;
  }

  get size(): number {
    return this.#held.size;
  }

  start(): void {
    const { signals, leaseMs } = this.#ports;
    this.#unsubscribe = signals.onStop((runKey) => {
      for (const held of this.#held) if (held.runKey === runKey) held.stop();
    });
    this.#renewal = setInterval(() => void this.renew([...this.#held]), leaseMs / 3);
    this.#checkInTimer = setInterval(() => this.#checkIn(), CHECK_IN_MS);
    this.#checkIn();
  }

  add(held: HeldUnit): void {
    this.#held.add(held);
  }

  delete(held: HeldUnit): void {
    this.#held.delete(held);
  }

  /** Extends the leases of these units, and asks whether they are to be stopped. */
  async renew(units: readonly HeldUnit[]): Promise<void> {
    if (units.length === 0) return;
    const from = performance.now();
    const fences = units.map((unit) => unit.fence);
    try {
      const answers = await this.#ports.work.renew(units, this.#ports.leaseMs);
      answers.forEach(({ held, stop }, i) => {
        const unit = units[i]!;
        // It may have moved on to the next unit meanwhile.
        if (unit.fence !== fences[i]) return;
        if (!held) unit.lose();
        else {
          unit.leaseUntil = Math.max(unit.leaseUntil, from + this.#ports.leaseMs);
          if (stop) unit.stop();
        }
      });
    } catch (error) {
      this.#ports.onError(error, 'renew');
    }
  }

  /** Hands back what workers of this host hold that were killed: nobody has to wait for the end of their leases. */
  #checkIn(): void {
    const { work, owner, freed, onError } = this.#ports;
    const hostTag = hostTagOf(owner);
    if (hostTag === undefined || this.#checkingIn) return;
    this.#checkingIn = work
      .checkIn(owner, hostTag)
      .then(async (others) => {
        if ((await work.releaseOwners(deadOwners(others))) > 0) freed?.();
      })
      .catch((error: unknown) => onError(error, 'check in'))
      .finally(() => {
        this.#checkingIn = undefined;
      });
  }

  /** Takes the units away from whoever still runs them, and hands them back. */
  async handBack(): Promise<void> {
    const left = [...this.#held];
    for (const held of left) held.lose();
    await this.#ports.work.release(left).catch(() => {});
  }

  /** No lease is kept any more. Call it when nothing is held. */
  async stop(): Promise<void> {
    this.#unsubscribe?.();
    clearInterval(this.#checkInTimer);
    clearInterval(this.#renewal);
    await this.#checkingIn;
    const { work, owner } = this.#ports;
    if (hostTagOf(owner) !== undefined) await work.releaseOwners([owner]).catch(() => {});
  }
}

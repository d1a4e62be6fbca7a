import { randomUUID } from 'node:crypto';
import type { Store, WorkStore } from '../../exports/engine.ts';
import type { TemporalPlacement } from './temporal-placement.ts';

export interface SweepPorts {
  readonly store: Pick<Store, 'findRun'>;
  readonly work: Pick<WorkStore, 'overdue'>;
  readonly placement: Pick<TemporalPlacement, 'tell'>;
  readonly afterMs: number;
  readonly onError: (error: unknown, what: string) => void;
}

const LIMIT = 100;
/** A run is told at most so often, and less and less often while nothing comes of it: a busy queue is no reason for noise. */
const LONGEST_MS = 600_000;
const MAX_TOLD = 10_000;

/**
 * Looks for units that nobody takes, and tells the workflow of their run: the one whose start or signal was lost when a
 * process died or the server was away, or that the server has lost altogether. Any number of workers may sweep.
 */
export class Sweep {
  readonly #ports: SweepPorts;
  readonly #told = new Map<string, { readonly at: number; readonly wait: number }>();
  #timer: NodeJS.Timeout | undefined;
  #sweeping: Promise<void> | undefined;

  constructor(ports: SweepPorts) {
    this.#ports = ports;
  }

  start(): void {
    const every = Math.max(200, this.#ports.afterMs / 3);
    this.#timer = setInterval(() => this.#sweep(), every);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#sweeping;
  }

  #sweep(): void {
    this.#sweeping ??= this.#tellOverdue()
      .catch((error: unknown) => this.#ports.onError(error, 'sweep'))
      .finally(() => {
        this.#sweeping = undefined;
      });
  }

  async #tellOverdue(): Promise<void> {
    const { store, work, placement, afterMs } = this.#ports;
    const now = Date.now();
    for (const [runId, { at, wait }] of this.#told) if (now > at + 2 * wait) this.#told.delete(runId);
    for (const runId of await work.overdue('temporal', { olderThanMs: afterMs, limit: LIMIT })) {
      const before = this.#told.get(runId);
      if ((before && now < before.at + before.wait) || this.#told.size >= MAX_TOLD) continue;
      const run = await store.findRun(runId);
      if (!run) continue;
      await placement.tell(run, { id: randomUUID(), sweep: true });
      this.#told.set(runId, { at: now, wait: Math.min(LONGEST_MS, before ? before.wait * 2 : afterMs) });
    }
  }
}

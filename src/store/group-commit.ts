import { isContention } from './sql/postgres.ts';

/** What goes into one batch: something about one run that has a size. */
export interface GroupedCall {
  readonly runKey: number;
  readonly events: { readonly length: number };
}

interface Waiting<Call, Answer> {
  readonly call: Call;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

export interface GroupCommitOptions<Call, Answer> {
  /** Batches under way at once. More than a few only makes them smaller. */
  readonly maxInFlight: number;
  readonly maxEvents: number;
  readonly write: (calls: readonly Call[]) => Promise<Answer[]>;
}

/** Below this many calls the fixed cost of another batch outweighs what doing two at once gains. */
const SMALLEST_SHARE = 8;

/**
 * Coalesces concurrent appends into few transactions. A run is in at most one batch at a time: a second one would only
 * wait for the first one's row lock, and hold up all of its neighbours meanwhile.
 */
export class GroupCommit<Call extends GroupedCall, Answer> {
  readonly #options: GroupCommitOptions<Call, Answer>;
  readonly #busy = new Set<number>();
  #queue: Waiting<Call, Answer>[] = [];
  #inFlight = 0;
  #scheduled = false;

  constructor(options: GroupCommitOptions<Call, Answer>) {
    this.#options = options;
  }

  append(call: Call): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ call, resolve, reject });
      this.#schedule();
    });
  }

  /** A turn of the event loop lets every producer that is ready join the batch. */
  #schedule(): void {
    if (this.#scheduled || this.#inFlight >= this.#options.maxInFlight) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    while (this.#inFlight < this.#options.maxInFlight && this.#queue.length > 0) {
      const batch = this.#take();
      if (batch.length === 0) return;
      void this.#write(batch);
    }
  }

  #take(): Waiting<Call, Answer>[] {
    const { maxInFlight, maxEvents } = this.#options;
    const batch: Waiting<Call, Answer>[] = [];
    const rest: Waiting<Call, Answer>[] = [];
    const mine = new Set<number>();
    const held = new Set<number>();
    let events = 0;
    // Producers that wait for their answers all come back at once. Were they all in one batch, this process and the
    // database would take turns, each idle while the other works; as several, they work at the same time.
    const share = Math.max(SMALLEST_SHARE, Math.ceil(this.#queue.length / (maxInFlight - this.#inFlight)));
    for (const waiting of this.#queue) {
      const { runKey, events: own } = waiting.call;
      const full = batch.length >= share || (events > 0 && events + own.length > maxEvents);
      if (full || held.has(runKey) || (this.#busy.has(runKey) && !mine.has(runKey))) {
        rest.push(waiting);
        // What comes later of this run must not overtake.
        held.add(runKey);
        continue;
      }
      mine.add(runKey);
      batch.push(waiting);
      events += own.length;
    }
    for (const runKey of mine) this.#busy.add(runKey);
    this.#queue = rest;
    return batch;
  }

  async #write(batch: readonly Waiting<Call, Answer>[]): Promise<void> {
    this.#inFlight += 1;
    try {
      await this.#settle(batch);
    } finally {
      this.#inFlight -= 1;
      for (const { call } of batch) this.#busy.delete(call.runKey);
      this.#schedule();
    }
  }

  async #settle(batch: readonly Waiting<Call, Answer>[]): Promise<void> {
    try {
      const answers = await this.#options.write(batch.map((waiting) => waiting.call));
      batch.forEach((waiting, i) => void waiting.resolve(answers[i] as Answer));
    } catch (error) {
      const [only] = batch;
      if (batch.length === 1 && only) return only.reject(error);
      // One bad run must not fail its neighbours; and two halves of a deadlock seldom meet again.
      if (isContention(error) || (error as { code?: string }).code !== 'STORE_UNAVAILABLE') {
        for (const waiting of batch) await this.#settle([waiting]);
      } else {
        for (const waiting of batch) waiting.reject(error);
      }
    }
  }
}

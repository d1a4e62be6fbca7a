import type { RunState } from '../kernel/state.ts';

interface Cached {
  readonly state: RunState;
  readonly bytes: number;
}

/** States of runs that were projected lately, so that the next events need no parsing. Bounded by their size as text. */
export class StateCache {
  readonly #maxBytes: number;
  readonly #states = new Map<number, Cached>();
  #bytes = 0;
  #losses = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Forgets everything when connections were lost: another server may have another end of the log. */
  keepFor(losses: number): void {
    if (losses === this.#losses) return;
    this.#losses = losses;
    this.#states.clear();
    this.#bytes = 0;
  }

  get(runKey: number): RunState | undefined {
    const cached = this.#states.get(runKey);
    if (!cached) return undefined;
    // A Map keeps the order of insertion: the first one is the one that was not used for longest.
    this.#states.delete(runKey);
    this.#states.set(runKey, cached);
    return cached.state;
  }

  set(runKey: number, state: RunState, bytes: number): void {
    this.delete(runKey);
    // One that has no room even alone would only drive out the others.
    if (bytes > this.#maxBytes) return;
    this.#states.set(runKey, { state, bytes });
    this.#bytes += bytes;
    for (const oldest of this.#states.keys()) {
      if (this.#bytes <= this.#maxBytes) break;
      this.delete(oldest);
    }
  }

  delete(runKey: number): void {
    const cached = this.#states.get(runKey);
    if (!cached) return;
    this.#states.delete(runKey);
    this.#bytes -= cached.bytes;
  }
}

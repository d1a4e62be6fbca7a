interface Entry {
  readonly at: number;
  readonly tie: number;
  readonly action: () => void;
}

/** A queue of things that happen at virtual times. Things of the same time happen in the order that `tie` gives. */
export class VirtualClock {
  #now: number;
  #order = 0;
  readonly #heap: Entry[] = [];
  readonly #random: (() => number) | undefined;

  constructor(start: number, random?: () => number) {
    this.#now = start;
    this.#random = random;
  }

  get now(): number {
    return this.#now;
  }

  get isEmpty(): boolean {
    return this.#heap.length === 0;
  }

  at(time: number, action: () => void): void {
    const tie = this.#random ? this.#random() : ++this.#order;
    this.#heap.push({ at: Math.max(time, this.#now), tie, action });
    this.#up(this.#heap.length - 1);
  }

  after(millis: number, action: () => void): void {
    this.at(this.#now + millis, action);
  }

  /** Lets the next thing happen. False: there is none. */
  step(): boolean {
    const first = this.#heap[0];
    const last = this.#heap.pop();
    if (!first || !last) return false;
    if (this.#heap.length > 0) {
      this.#heap[0] = last;
      this.#down(0);
    }
    this.#now = first.at;
    first.action();
    return true;
  }

  #isBefore(a: number, b: number): boolean {
    const x = this.#heap[a] as Entry;
    const y = this.#heap[b] as Entry;
    return x.at < y.at || (x.at === y.at && x.tie < y.tie);
  }

  #swap(a: number, b: number): void {
    const kept = this.#heap[a] as Entry;
    this.#heap[a] = this.#heap[b] as Entry;
    this.#heap[b] = kept;
  }

  #up(from: number): void {
    let at = from;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.#isBefore(at, parent)) return;
      this.#swap(at, parent);
      at = parent;
    }
  }

  #down(from: number): void {
    let at = from;
    for (;;) {
      let least = at;
      for (const child of [2 * at + 1, 2 * at + 2]) {
        if (child < this.#heap.length && this.#isBefore(child, least)) least = child;
      }
      if (least === at) return;
      this.#swap(at, least);
      at = least;
    }
  }
}

/** A small generator with a seed (mulberry32): the same seed, the same numbers. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

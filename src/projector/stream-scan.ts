import type { StreamCursor } from '../store/sql/read-stream.ts';
import type { StreamSnapshot } from '../store/sql/stream-snapshot.ts';

/** How far discovery has come: what was to be seen at the last complete pass, and what was still under way then. */
interface Settled {
  readonly era: number;
  readonly xmax: number;
  readonly inFlight: readonly number[];
}

interface Pass {
  readonly basis: StreamSnapshot;
  readonly next: StreamCursor;
}

/**
 * Where to look for events that are not projected. A cursor for delivery must wait for the oldest running transaction,
 * since one of lower id may still commit below it. A projector must not wait, and must not read everything above that
 * transaction again and again either: it remembers which transactions were under way, and goes back only as far as the
 * oldest of them that has ended since. (An event's place is never below its own transaction.)
 */
export class StreamScan {
  readonly #rescanMicros: number;
  #settled: Settled | undefined;
  #pass: Pass | undefined;
  #floor: StreamCursor | undefined;
  #fromCursorAt = Number.NEGATIVE_INFINITY;

  /** After `rescanMs` a pass begins at the shared cursor again, in case something was missed all the same. */
  constructor(rescanMs: number) {
    this.#rescanMicros = rescanMs * 1000;
  }

  /** Forgets what was seen: the next pass begins at the shared cursor. */
  reset(): void {
    this.#settled = undefined;
    this.#pass = undefined;
    this.#floor = undefined;
  }

  /** Whether the next pass has to begin at the shared cursor. */
  needsCursor(now: StreamSnapshot): boolean {
    if (this.#pass) return this.#pass.basis.era !== now.era;
    const settled = this.#settled;
    return (
      settled === undefined ||
      settled.era !== now.era ||
      // Transaction ids went back: another server took over, without the last ones.
      now.xmax < settled.xmax ||
      now.nowMicros - this.#fromCursorAt > this.#rescanMicros
    );
  }

  /** Begins a pass, unless one is under way. Nothing to do when nothing has been written since the last one. */
  begin(now: StreamSnapshot, cursor?: StreamCursor): void {
    if (this.needsCursor(now)) {
      this.#fromCursorAt = now.nowMicros;
      this.#floor = undefined;
      this.#pass = { basis: now, next: cursor ?? { era: 0, xid: 0, runKey: 0, runSeq: 0 } };
      return;
    }
    const settled = this.#settled;
    if (this.#pass || !settled) return;
    const running = new Set(now.inFlight);
    const ended = settled.inFlight.filter((xid) => !running.has(xid));
    if (ended.length === 0 && now.xmax === settled.xmax) return;
    this.#pass = { basis: now, next: startOf(now.era, Math.min(settled.xmax, ...ended)) };
  }

  /** The page to read next; undefined when the pass is complete. */
  get next(): StreamCursor | undefined {
    return this.#pass?.next;
  }

  /** A page was read; `next` is where the following one begins. */
  advance(next: StreamCursor | undefined): void {
    const pass = this.#pass;
    if (!pass) return;
    const { era, xmin, xmax, inFlight } = pass.basis;
    const horizon = startOf(era, xmin);
    if (next) {
      this.#pass = { basis: pass.basis, next };
      this.#floor = lower(startOf(next.era, next.xid), horizon);
      return;
    }
    this.#pass = undefined;
    this.#settled = { era, xmax, inFlight };
    this.#floor = horizon;
  }

  /** Every event below this place was found, and no other can come to be there. */
  get floor(): StreamCursor | undefined {
    return this.#floor;
  }
}

export function startOf(era: number, xid: number): StreamCursor {
  return { era, xid, runKey: 0, runSeq: 0 };
}

export function lower(a: StreamCursor, b: StreamCursor): StreamCursor {
  return compare(a, b) <= 0 ? a : b;
}

export function compare(a: StreamCursor, b: StreamCursor): number {
  return a.era - b.era || a.xid - b.xid || a.runKey - b.runKey || a.runSeq - b.runSeq;
}

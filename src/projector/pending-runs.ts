import type { StreamCursor } from '../store/sql/read-stream.ts';
import type { UnprojectedRun } from '../store/sql/scan-unprojected.ts';
import { lower, startOf } from './stream-scan.ts';

interface PendingRun {
  readonly runKey: number;
  readonly place: StreamCursor;
  /** Store time of the oldest event that is missing. */
  micros: number;
  /** The projection is complete when its watermark is here. */
  target: number;
  /** The target when the run was taken; a greater one was found since. */
  takenTarget: number;
  size: number;
  busy: boolean;
  alone: boolean;
  failures: number;
  notBefore: number;
}

/** What became of a run in a batch. */
export interface RunOutcome {
  readonly runKey: number;
  /** How far the saved projection goes now. */
  readonly watermark: number;
  /** The log ended there when the run was claimed: a server that took over may have lost what was seen before. */
  readonly atEnd?: boolean;
  /** It has to be read again, whatever the watermark says. */
  readonly stale?: boolean;
  /** Store time of the last event that was projected. */
  readonly micros?: number;
  /** It takes so long that it must not be in a batch with others. */
  readonly alone?: boolean;
  /** When it is worth while to look again, if it did not get to the end. */
  readonly waitMs?: number;
  readonly error?: unknown;
}

const MAX_BATCH_RUNS = 100;
const MAX_BATCH_EVENTS = 4000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 60_000;

/** Runs that were found with events not projected yet, in the order in which their turn comes. */
export class PendingRuns {
  readonly #runs = new Map<number, PendingRun>();

  get size(): number {
    return this.#runs.size;
  }

  add({ runKey, era, xid, firstSeq, lastSeq, micros }: UnprojectedRun): void {
    const known = this.#runs.get(runKey);
    if (known) {
      known.target = Math.max(known.target, lastSeq);
      known.size += lastSeq - firstSeq + 1;
      return;
    }
    this.#runs.set(runKey, {
      runKey,
      place: startOf(era, xid),
      micros,
      target: lastSeq,
      takenTarget: lastSeq,
      size: lastSeq - firstSeq + 1,
      busy: false,
      alone: false,
      failures: 0,
      notBefore: 0,
    });
  }

  /** Runs to project together: few enough events for a short transaction, and a run that failed stands alone. */
  take(now: number): number[] {
    const batch: PendingRun[] = [];
    let events = 0;
    for (const run of this.#runs.values()) {
      if (run.busy || run.notBefore > now) continue;
      const alone = run.failures > 0 || run.alone;
      if (batch.length > 0 && (alone || events + run.size > MAX_BATCH_EVENTS)) break;
      batch.push(run);
      events += run.size;
      if (alone || batch.length === MAX_BATCH_RUNS) break;
    }
    for (const run of batch) {
      run.busy = true;
      run.takenTarget = run.target;
    }
    return batch.map((run) => run.runKey);
  }

  settle(outcome: RunOutcome, now: number): void {
    const run = this.#runs.get(outcome.runKey);
    if (!run) return;
    // Whoever has had a turn goes to the end of the queue, so that one endless run does not keep the others waiting.
    this.#runs.delete(outcome.runKey);
    const complete = outcome.watermark >= run.target || (outcome.atEnd && run.target === run.takenTarget);
    if (outcome.error === undefined && !outcome.stale && complete) return;
    run.busy = false;
    run.alone = outcome.alone ?? false;
    run.size = Math.max(1, run.target - outcome.watermark);
    if (outcome.micros !== undefined) run.micros = outcome.micros;
    if (outcome.error === undefined) {
      run.failures = 0;
      run.notBefore = now + (outcome.waitMs ?? 0);
    } else {
      run.failures += 1;
      run.notBefore = now + Math.min(FIRST_PAUSE_MS * 2 ** (run.failures - 1), LONGEST_PAUSE_MS);
    }
    this.#runs.set(outcome.runKey, run);
  }

  /** No event below this place is missing, as far as these runs go. */
  floor(): StreamCursor | undefined {
    let floor: StreamCursor | undefined;
    for (const { place } of this.#runs.values()) floor = floor ? lower(floor, place) : place;
    return floor;
  }

  oldestMicros(): number | undefined {
    let oldest: number | undefined;
    for (const { micros } of this.#runs.values()) if (oldest === undefined || micros < oldest) oldest = micros;
    return oldest;
  }
}

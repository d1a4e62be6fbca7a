import { AppError } from '../contracts/errors.ts';
import type { ProjectionStore } from '../store/projection-store.ts';
import type { StreamCursor } from '../store/sql/read-stream.ts';
import type { StreamSnapshot } from '../store/sql/stream-snapshot.ts';
import { PendingRuns } from './pending-runs.ts';
import { projectBatch } from './project-batch.ts';
import { horizonHeld, lagHigh } from './projection-alerts.ts';
import { StateCache } from './state-cache.ts';
import { compare, lower, StreamScan } from './stream-scan.ts';

export interface ProjectorOptions {
  readonly store: { readonly projections: ProjectionStore };
  /** Pause between two looks for new events; 100 ms by default. */
  readonly pollMs?: number;
  /** A lag above this raises PROJECTOR_LAG_HIGH; 5 s by default. */
  readonly lagAlertMs?: number;
  /** A transaction that holds the stream's horizon for longer raises STREAM_HORIZON_HELD; 5 s by default. */
  readonly horizonAlertMs?: number;
  /** A lag that was not seen for so long and comes back is another episode, with another alert; 10 s by default. */
  readonly episodeQuietMs?: number;
  /** Batches under way at once; 2 by default. */
  readonly concurrency?: number;
  /** Told of what went wrong; the projector goes on. By default a warning of the process. */
  readonly onError?: (error: unknown) => void;
  /** Milliseconds that only rise, for pauses. Lag is measured with the clock of the database. */
  readonly clock?: () => number;
}

export interface ProjectorReport {
  /** Events projected, runs saved, gaps and invalid transitions met, since this projector was made. */
  readonly events: number;
  readonly saved: number;
  readonly gaps: number;
  readonly violations: number;
  /** Runs known to have events that are not projected yet. */
  readonly pending: number;
  /** Age of the oldest event not projected, by the clock of the database, when it was measured last. */
  readonly lagMs: number;
  /** The greatest age at which an event was projected. */
  readonly worstLagMs: number;
}

export interface Projector {
  /** Looks for new events and projects them, until stopped. */
  start(): void;
  /** Ends after the transactions under way. */
  stop(): Promise<void>;
  /** Finds what is to be projected now and projects it. Runs that another projector holds may be left. */
  runOnce(): Promise<ProjectorReport>;
  lag(): number;
  report(): ProjectorReport;
}

/** Well below the second that a projection may be behind. */
export const DEFAULT_POLL_MS = 100;

export function createProjector(options: ProjectorOptions): Projector {
  return new PollingProjector(options);
}

/** Discovery waits while so many runs are in the queue, so that a large backlog does not fill the memory. */
const MAX_PENDING = 20_000;
/** Of text; in memory a state takes several times as much. */
const CACHE_BYTES = 32 * 1024 * 1024;
const RESCAN_MS = 30_000;
/** The shared cursor spares others a look at old events. Moving it all the time would only make work. */
const CURSOR_EVERY_MS = 1000;
const ALERT_EVERY_MS = 1000;

class PollingProjector implements Projector {
  readonly #store: ProjectionStore;
  readonly #pollMs: number;
  readonly #lagAlertMs: number;
  readonly #horizonAlertMs: number;
  readonly #quietMs: number;
  readonly #concurrency: number;
  readonly #onError: (error: unknown) => void;
  readonly #now: () => number;
  readonly #pending = new PendingRuns();
  readonly #cache = new StateCache(CACHE_BYTES);
  readonly #scan = new StreamScan(RESCAN_MS);
  readonly #lanes = new Set<Promise<void>>();
  readonly #counts = { events: 0, saved: 0, gaps: 0, violations: 0 };
  #loop: Promise<void> | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  #losses = 0;
  #stopping = false;
  #wake: (() => void) | undefined;
  /** The database's clock minus ours. */
  #offsetMs = 0;
  #lagMs = 0;
  #worstLagMs = 0;
  #lagNotedAt = Number.NEGATIVE_INFINITY;
  #horizon: { readonly xmin: number; readonly sinceMicros: number; told: boolean } | undefined;
  #cursor: StreamCursor | undefined;
  #cursorMovedAt = Number.NEGATIVE_INFINITY;
  #foundSinceCursor = false;

  constructor(options: ProjectorOptions) {
    this.#store = options.store.projections;
    this.#pollMs = positive('pollMs', options.pollMs ?? DEFAULT_POLL_MS);
    this.#lagAlertMs = positive('lagAlertMs', options.lagAlertMs ?? 5000);
    this.#horizonAlertMs = positive('horizonAlertMs', options.horizonAlertMs ?? 5000);
    this.#quietMs = positive('episodeQuietMs', options.episodeQuietMs ?? 10_000);
    this.#concurrency = Math.ceil(positive('concurrency', options.concurrency ?? 2));
    this.#onError = options.onError ?? ((error) => process.emitWarning(error instanceof Error ? error : String(error)));
    this.#now = options.clock ?? (() => performance.now());
  }

  start(): void {
    if (this.#loop) return;
    this.#stopping = false;
    this.#loop = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#wake?.();
    await this.#loop;
    this.#loop = undefined;
    await this.#lanesEnd();
  }

  lag(): number {
    return this.#lagMs;
  }

  report(): ProjectorReport {
    return { ...this.#counts, pending: this.#pending.size, lagMs: this.#lagMs, worstLagMs: this.#worstLagMs };
  }

  async runOnce(): Promise<ProjectorReport> {
    this.#stopping = false;
    for (let complete = false; !complete && !this.#stopping; ) {
      complete = await this.#inTurn(() => this.#discover());
      this.#openLanes();
      await this.#lanesEnd();
      // With the queue full of runs that cannot be projected now there is nothing to go on with.
      if (this.#pending.size >= MAX_PENDING) break;
    }
    await this.#inTurn(() => this.#conclude());
    return this.report();
  }

  async #run(): Promise<void> {
    while (!this.#stopping) {
      try {
        await this.#inTurn(() => this.#discover());
        this.#openLanes();
        await this.#inTurn(() => this.#conclude());
      } catch (error) {
        this.#onError(error);
      }
      await this.#sleep();
    }
    await this.#lanesEnd();
    await this.#inTurn(() => this.#moveCursor()).catch(this.#onError);
  }

  /** Discovery has one place in the stream: two at once would confuse it. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(work, work);
    this.#turn = turn.catch(() => {});
    return turn;
  }

  /** True when everything that was to be seen when the pass began is in the queue. */
  async #discover(): Promise<boolean> {
    const now = await this.#store.streamSnapshot();
    const losses = this.#store.losses();
    if (losses !== this.#losses) {
      // Another server may have taken over, with another end of the log.
      this.#losses = losses;
      this.#scan.reset();
      this.#cursor = undefined;
    }
    this.#offsetMs = now.nowMicros / 1000 - this.#now();
    await this.#watchHorizon(now);
    this.#scan.begin(now, this.#scan.needsCursor(now) ? await this.#store.loadCursor() : undefined);
    while (this.#scan.next && this.#pending.size < MAX_PENDING && !this.#stopping) {
      const page = await this.#store.scan(this.#scan.next);
      for (const run of page.runs) this.#pending.add(run);
      if (page.runs.length > 0 || page.next) this.#foundSinceCursor = true;
      this.#scan.advance(page.next);
      this.#openLanes();
    }
    await this.#measureLag();
    return this.#scan.next === undefined;
  }

  async #conclude(): Promise<void> {
    await this.#measureLag();
    if (this.#now() - this.#cursorMovedAt >= CURSOR_EVERY_MS) await this.#moveCursor();
  }

  #openLanes(): void {
    while (this.#lanes.size < this.#concurrency) {
      const batch = this.#pending.take(this.#now());
      if (batch.length === 0) return;
      const lane: Promise<void> = this.#project(batch).finally(() => {
        this.#lanes.delete(lane);
        if (!this.#stopping) this.#openLanes();
      });
      this.#lanes.add(lane);
    }
  }

  /** A lane that ends opens the next one as long as there is work. */
  async #lanesEnd(): Promise<void> {
    while (this.#lanes.size > 0) await Promise.all(this.#lanes);
  }

  async #project(runKeys: readonly number[]): Promise<void> {
    try {
      const result = await projectBatch(this.#store, runKeys, {
        cache: this.#cache,
        now: this.#now,
        stopping: () => this.#stopping,
        pollMs: this.#pollMs,
      });
      for (const key of ['events', 'saved', 'gaps', 'violations'] as const) this.#counts[key] += result[key];
      if (result.oldestMicros !== undefined)
        this.#worstLagMs = Math.max(this.#worstLagMs, this.#ageMs(result.oldestMicros));
      for (const outcome of result.outcomes) {
        if (outcome.error !== undefined) this.#onError(outcome.error);
        this.#pending.settle(outcome, this.#now());
      }
    } catch (error) {
      // Nothing was saved. The next try takes the runs one by one, so that one bad run does not spoil the others.
      this.#onError(error);
      for (const runKey of runKeys) this.#pending.settle({ runKey, watermark: 0, error }, this.#now());
    }
  }

  #ageMs(micros: number): number {
    return Math.max(0, this.#now() + this.#offsetMs - micros / 1000);
  }

  async #measureLag(): Promise<void> {
    const oldest = this.#pending.oldestMicros();
    this.#lagMs = oldest === undefined ? 0 : this.#ageMs(oldest);
    if (oldest === undefined || this.#lagMs <= this.#lagAlertMs) return;
    if (this.#now() - this.#lagNotedAt < Math.min(ALERT_EVERY_MS, this.#quietMs / 2)) return;
    this.#lagNotedAt = this.#now();
    const episode = await this.#store.noteEpisode('projector-lag', this.#quietMs);
    await this.#store.raiseAlert(lagHigh(this.#lagMs, this.#lagAlertMs, oldest, episode));
  }

  async #watchHorizon(now: StreamSnapshot): Promise<void> {
    if (now.inFlight.length === 0) {
      // The next transaction may get this very number, and begins to hold the horizon only then.
      this.#horizon = undefined;
      return;
    }
    if (this.#horizon?.xmin !== now.xmin) this.#horizon = { xmin: now.xmin, sinceMicros: now.nowMicros, told: false };
    const heldMs = (now.nowMicros - this.#horizon.sinceMicros) / 1000;
    if (this.#horizon.told || heldMs <= this.#horizonAlertMs) return;
    await this.#store.raiseAlert(horizonHeld(now, heldMs, await this.#store.horizonHolder(now.xmin)));
    this.#horizon.told = true;
  }

  async #moveCursor(): Promise<void> {
    const found = this.#scan.floor;
    const missing = this.#pending.floor();
    const to = found && missing ? lower(found, missing) : found;
    if (!to || !this.#foundSinceCursor || (this.#cursor && compare(to, this.#cursor) <= 0)) return;
    await this.#store.advanceCursor(to);
    this.#cursor = to;
    this.#cursorMovedAt = this.#now();
    this.#foundSinceCursor = this.#pending.size > 0;
  }

  async #sleep(): Promise<void> {
    if (this.#stopping) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, this.#pollMs);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = undefined;
  }
}

function positive(name: string, value: number): number {
  if (Number.isFinite(value) && value > 0) return value;
  throw new AppError('USAGE', `${name} must be a number above 0, not ${value}`, { option: name });
}

import { isTerminal } from '../contracts/states.ts';
import type { RunState } from '../kernel/state.ts';
import { toJson } from '../kernel/state-json.ts';
import { toSnapshot } from '../kernel/to-snapshot.ts';
import type { ProjectionClaim, ProjectionStore } from '../store/projection-store.ts';
import type { ProjectionStand } from '../store/sql/claim-projections.ts';
import type { ProjectionRow } from '../store/sql/save-projections.ts';
import type { RunOutcome } from './pending-runs.ts';
import { invalidTransition, type NewAlert, nonContiguous } from './projection-alerts.ts';
import { RunProjection } from './run-projection.ts';
import { blankState, revive } from './snapshot-projector.ts';
import type { StateCache } from './state-cache.ts';

export interface BatchOptions {
  readonly cache: StateCache;
  readonly now: () => number;
  /** Whether to finish early. */
  readonly stopping: () => boolean;
  /** When to ask again for a run that somebody else is projecting. */
  readonly pollMs: number;
}

export interface BatchResult {
  readonly outcomes: readonly RunOutcome[];
  /** Events that were not projected before, and runs that were saved. */
  readonly events: number;
  readonly saved: number;
  readonly gaps: number;
  readonly violations: number;
  /** Store time of the oldest event in it. */
  readonly oldestMicros: number | undefined;
}

interface Job {
  readonly stand: ProjectionStand;
  readonly projection: RunProjection;
  /** The run is STALE: its whole log is read, whatever was saved. */
  readonly resync: boolean;
  /** Time was up before there was something to save. */
  cut?: boolean;
  firstMicros?: number | undefined;
  lastMicros?: number;
  error?: unknown;
}

/** How long a batch may take before it saves what it has, so that a kill costs little and others get their turn. */
const BATCH_MS = 1000;
/** A state that is behind in the cache is brought forward by reading, unless that is more than parsing the saved one. */
const MAX_CATCH_UP = 500;
/**
 * Saving costs time in proportion to the size of the state. A large one is saved less often, but often enough to stay
 * below a second behind: 25 ms for 100 kB, 250 ms for 1 MB, never more than 750 ms.
 */
const BYTES_PER_PAUSED_MS = 4096;
const MAX_PAUSE_MS = 750;

export function saveEveryMs(stateBytes: number): number {
  return Math.min(stateBytes / BYTES_PER_PAUSED_MS, MAX_PAUSE_MS);
}

/** Projects runs in one transaction. Runs that another projector holds are left to it. */
export async function projectBatch(
  store: ProjectionStore,
  runKeys: readonly number[],
  options: BatchOptions,
): Promise<BatchResult> {
  const { cache } = options;
  const { done, jobs, rows, alerts, losses } = await store.claim(runKeys, async (claim) => {
    const losses = store.losses();
    cache.keepFor(losses);
    const { done, due } = choose(runKeys, claim.stands, options.pollMs);
    const jobs = await startJobs(claim, due, cache);
    await readAndFold(claim, jobs, options);
    const rows = new Map<Job, ProjectionRow>();
    const alerts: NewAlert[] = [];
    for (const job of jobs) {
      if (job.error !== undefined || !worthSaving(job)) continue;
      try {
        rows.set(job, rowOf(job));
        alerts.push(...alertsOf(job));
      } catch (error) {
        job.error = error;
      }
    }
    await claim.save([...rows.values()], alerts);
    return { done, jobs, rows, alerts, losses };
  });
  // Only now: the work above may have been done twice, and what did not commit must not be remembered.
  cache.keepFor(store.losses());
  for (const job of losses === store.losses() ? jobs : []) {
    const row = rows.get(job);
    const { state, gap } = job.projection;
    const keep = row && !gap && row.staleUntil === undefined && !(state.run.status && isTerminal(state.run.status));
    if (keep) cache.set(job.stand.runKey, state, row.state.length + row.snapshot.length);
    else if (row || job.error !== undefined) cache.delete(job.stand.runKey);
  }
  const firsts = jobs.flatMap((job) => (rows.has(job) && job.firstMicros !== undefined ? [job.firstMicros] : []));
  return {
    outcomes: [...done, ...jobs.map((job) => outcomeOf(job, rows.get(job), options.pollMs))],
    events: [...rows].reduce((sum, [job, row]) => sum + row.lastEventSeq - job.stand.watermark, 0),
    saved: rows.size,
    gaps: jobs.filter((job) => job.projection.gap).length,
    violations: alerts.filter((alert) => alert.code === 'INVALID_TRANSITION').length,
    oldestMicros: firsts.length > 0 ? Math.min(...firsts) : undefined,
  };
}

/** Which runs are to be projected now, and what is known about the others. */
function choose(
  runKeys: readonly number[],
  stands: readonly ProjectionStand[],
  pollMs: number,
): { done: RunOutcome[]; due: ProjectionStand[] } {
  const done: RunOutcome[] = [];
  const due: ProjectionStand[] = [];
  for (const stand of stands) {
    const { runKey, watermark, lastSeq, staleUntil, stateBytes, ageMs, claimed } = stand;
    const waitMs = saveEveryMs(stateBytes) - ageMs;
    if (!claimed) done.push({ runKey, watermark, stale: staleUntil !== undefined, waitMs: pollMs });
    else if (watermark >= lastSeq && staleUntil === undefined) done.push({ runKey, watermark, atEnd: true });
    else if (waitMs > 0 && staleUntil === undefined) done.push({ runKey, watermark, waitMs });
    else due.push(stand);
  }
  // A run without a row has no events any more.
  const known = new Set(stands.map((stand) => stand.runKey));
  for (const runKey of runKeys) if (!known.has(runKey)) done.push({ runKey, watermark: 0, atEnd: true });
  return { done, due };
}

async function startJobs(
  claim: ProjectionClaim,
  stands: readonly ProjectionStand[],
  cache: StateCache,
): Promise<Job[]> {
  const starts = new Map<number, RunState>();
  const toLoad: number[] = [];
  for (const { runKey, watermark, staleUntil } of stands) {
    if (staleUntil !== undefined) continue;
    const cached = cache.get(runKey);
    // A state ahead of the saved one has seen events whose alerts a crash of the database took back.
    if (cached && cached.lastEventSeq <= watermark && watermark - cached.lastEventSeq <= MAX_CATCH_UP)
      starts.set(runKey, cached);
    else if (watermark > 0) toLoad.push(runKey);
  }
  for (const [runKey, text] of toLoad.length > 0 ? await claim.loadStates(toLoad) : []) {
    const state = revive(text);
    if (state) starts.set(runKey, state);
  }
  return stands.map((stand) => {
    const resync = stand.staleUntil !== undefined;
    const state = starts.get(stand.runKey);
    const projection = new RunProjection(state ?? blankState(stand.runId), {
      gapsThrough: resync ? Number.POSITIVE_INFINITY : stand.watermark,
      erasedThrough: state ? state.lastEventSeq : stand.lastSeq,
    });
    return { stand, projection, resync };
  });
}

async function readAndFold(claim: ProjectionClaim, jobs: readonly Job[], options: BatchOptions): Promise<void> {
  // Saving a large state takes long by itself: then more is read before it is worth while.
  const until = options.now() + BATCH_MS + Math.max(...jobs.map((job) => job.stand.stateBytes)) / BYTES_PER_PAUSED_MS;
  // The shortest first: a page has room for many of them, and a long one fills it alone.
  const left = ({ stand, projection }: Job) => stand.lastSeq - projection.state.lastEventSeq;
  let active = jobs.toSorted((a, b) => left(a) - left(b));
  while (active.length > 0) {
    const tails = await claim.readTails(
      active.map(({ stand, projection }) => ({ runKey: stand.runKey, afterSeq: projection.state.lastEventSeq })),
    );
    const late = options.now() > until || options.stopping();
    for (const job of active) job.cut = false;
    if (tails.size === 0) return;
    active = active.filter((job) => {
      const { stand, projection } = job;
      const events = tails.get(stand.runKey);
      if (events) {
        try {
          projection.take(events);
        } catch (error) {
          job.error = error;
          return false;
        }
        const last = events.findLast(({ runSeq }) => runSeq <= projection.state.lastEventSeq);
        job.firstMicros ??= events[0]?.micros;
        if (last) job.lastMicros = last.micros;
      }
      const { lastEventSeq } = projection.state;
      if (projection.gap || lastEventSeq >= stand.lastSeq) return false;
      if (!late) return true;
      // What is behind the saved projection cannot be saved. Alone it goes on; in company it would keep others waiting.
      job.cut = lastEventSeq < Math.max(stand.watermark, stand.staleUntil ?? 0);
      return job.cut && jobs.length === 1;
    });
    if (options.stopping()) return;
  }
}

function worthSaving({ stand, projection }: Job): boolean {
  const { lastEventSeq } = projection.state;
  if (lastEventSeq < stand.watermark) return false;
  return lastEventSeq > stand.watermark || projection.gap !== undefined || isResynced(stand, lastEventSeq);
}

function isResynced({ staleUntil }: ProjectionStand, lastEventSeq: number): boolean {
  return staleUntil !== undefined && lastEventSeq >= staleUntil;
}

function rowOf({ stand, projection }: Job): ProjectionRow {
  const { state, gap } = projection;
  const waitsFor = isResynced(stand, state.lastEventSeq) ? undefined : stand.staleUntil;
  const staleUntil = gap?.nextSeq ?? waitsFor;
  return {
    runKey: stand.runKey,
    lastEventSeq: state.lastEventSeq,
    state: JSON.stringify(toJson(state)),
    snapshot: JSON.stringify(toSnapshot(state, { stale: staleUntil !== undefined })),
    staleUntil,
  };
}

function alertsOf({ stand, projection }: Job): NewAlert[] {
  const alerts = projection.violations.map((found) => invalidTransition(stand, found));
  if (projection.gap) alerts.push(nonContiguous(stand, projection.gap));
  return alerts;
}

function outcomeOf(job: Job, row: ProjectionRow | undefined, pollMs: number): RunOutcome {
  const { runKey, watermark } = job.stand;
  if (job.error !== undefined) return { runKey, watermark, error: job.error };
  // Without progress there is nothing to do until something changes; with a gap the resync follows at once.
  if (!row) return { runKey, watermark, stale: job.resync, ...(job.cut ? { alone: true } : { waitMs: pollMs }) };
  return {
    runKey,
    watermark: row.lastEventSeq,
    stale: row.staleUntil !== undefined,
    ...(job.cut ? { alone: true } : {}),
    ...(job.lastMicros === undefined || row.lastEventSeq === watermark ? {} : { micros: job.lastMicros }),
    ...(job.resync && row.staleUntil !== undefined && !job.cut ? { waitMs: pollMs } : {}),
  };
}

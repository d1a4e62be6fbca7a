import { sameJson } from '../lib/same-json.ts';
import { VersionedMap } from '../lib/versioned-map.ts';
import { patchCtx } from './ctx.ts';
import { parseEntity } from './entity-path.ts';
import { isUncatchable } from './failures.ts';
import { countOf, countsOf, errorOf, type JsonObject, objectOf, storedValueOf, textOf } from './payload-reader.ts';
import { isDuplicate, SEEN } from './reduce-step.ts';
import type { LoopState, OpenIteration } from './state.ts';
import { copyStep, some } from './step-state.ts';
import { type KernelEvent, noteErased, type Reducer, refuse, type Work } from './work.ts';

/** A jump further than this cannot come from handing out indexes in order; filling it would exhaust the process. */
const MAX_JUMP = 100_000;

const FRESH: OpenIteration = Object.freeze({
  scheduled: false,
  started: false,
  waits: 0,
  patches: 0,
  openWaits: 0,
  eligible: false,
  verdict: undefined,
});

function loopStarted(work: Work, event: KernelEvent): void {
  noteErased(work, event);
  const { draft, owner } = work;
  const step = event.stepId === undefined ? undefined : draft.open.get(event.stepId);
  if (!step || event.logicalAttemptId !== step.attempt || isDuplicate(step, step.attempt, SEEN.LoopStarted)) return;
  const payload = objectOf(event.payload);
  const mode = payload['mode'] === 'parallel' || payload['mode'] === 'cursor' ? payload['mode'] : 'sequential';
  const carried = new Set(countsOf(payload['finished']));
  const loop: LoopState = {
    stepId: step.stepId,
    attempt: step.attempt,
    mode,
    ...some('iterator', textOf(payload['iterator'])),
    ...some('count', countOf(payload['count'])),
    ...some('list', storedValueOf(payload['list'])),
    ...some('maxInFlight', countOf(payload['maxInFlight'])),
    ...some('results', storedValueOf(payload['results'])),
    next: skipCarried(0, carried),
    carried,
    open: VersionedMap.empty(),
    ended: carried.size,
    failed: 0,
    exhausted: false,
    set: {},
  };
  draft.loops = draft.loops.set(step.stepId, loop, owner);
  const marked = copyStep(step);
  marked.seen |= SEEN.LoopStarted;
  draft.open = draft.open.set(step.stepId, marked, owner);
}

export function skipCarried(index: number, carried: ReadonlySet<number>): number {
  let next = index;
  while (carried.has(next)) next++;
  return next;
}

function indexOf(event: KernelEvent): number | undefined {
  const index = countOf(objectOf(event.payload)['index']);
  if (index !== undefined) return index;
  return event.entity === undefined ? undefined : parseEntity(event.entity)?.iteration;
}

/**
 * Iteration facts commute: index 5 may be recorded before index 4, which is under way on another worker. Every index
 * below the highest one seen has been handed out, so it is open until its end is recorded.
 */
function openUpTo(work: Work, loop: LoopState, index: number): LoopState | undefined {
  if (index < loop.next) return loop;
  if (index - loop.next > MAX_JUMP || (loop.count !== undefined && index >= loop.count)) return undefined;
  let open = loop.open;
  for (let i = loop.next; i <= index; i++) if (!loop.carried.has(i)) open = open.set(i, FRESH, work.owner);
  return { ...loop, open, next: skipCarried(index + 1, loop.carried) };
}

type Change = (work: Work, loop: LoopState, index: number, entry: OpenIteration, event: KernelEvent) => LoopState;

function iteration(attempted: string, change: Change): Reducer {
  return (work, event) => {
    const loop = event.stepId === undefined ? undefined : work.draft.loops.get(event.stepId);
    const index = indexOf(event);
    if (!loop || index === undefined || event.logicalAttemptId !== loop.attempt) return;
    if (work.draft.open.get(loop.stepId)?.status !== 'RUNNING') return;
    const opened = openUpTo(work, loop, index);
    if (!opened) return refuse(work, event, `count ${loop.count}`, attempted);
    const entry = opened.open.get(index);
    // Ended already: the same fact again, or one that came late.
    if (!entry) return;
    const changed = change(work, opened, index, entry, event);
    work.draft.loops = work.draft.loops.set(loop.stepId, changed, work.owner);
  };
}

const scheduled: Change = (work, loop, index, entry, event) => {
  const dueAt = textOf(objectOf(event.payload)['dueAt']);
  return { ...loop, open: loop.open.set(index, { ...entry, scheduled: true, ...some('dueAt', dueAt) }, work.owner) };
};

const started: Change = (work, loop, index, entry) => ({
  ...loop,
  open: loop.open.set(index, { ...entry, started: true, eligible: false }, work.owner),
});

const ended: Change = (work, loop, index, _entry, event) => {
  noteErased(work, event);
  const payload = objectOf(event.payload);
  const exhausted = loop.exhausted || payload['exhausted'] === true;
  // Of a cursor, rows are counted where frames are worked on row by row, and a claim that found nothing counts for nothing.
  const counts = loop.mode === 'cursor' ? (countOf(payload['rows']) ?? 1) : 1;
  const after: LoopState = {
    ...loop,
    open: loop.open.delete(index, work.owner),
    ended: loop.ended + counts,
    exhausted,
  };
  return writes(work, after, objectOf(payload['set']));
};

const failed: Change = (work, loop, index, entry, event) => {
  const after = ended(work, loop, index, entry, event);
  const error = errorOf(objectOf(event.payload)['error']);
  // What nothing may catch wins over an earlier failure, or that one's handler would catch it.
  const isWorse = isUncatchable(error) && !isUncatchable(loop.firstError);
  const firstError = isWorse ? error : (loop.firstError ?? error);
  const { failedAt = [] } = loop;
  return {
    ...after,
    failed: loop.failed + 1,
    firstError,
    failedAt: failedAt.length < MAX_FAILED_AT ? [...failedAt, index] : failedAt,
  };
};

/** So many failed iterations are named; the log has them all. */
const MAX_FAILED_AT = 5;

/** In a sequence the last write wins and the next iteration sees it; side by side, writes must agree. */
function writes(work: Work, loop: LoopState, set: JsonObject): LoopState {
  const keys = Object.keys(set);
  if (keys.length === 0) return loop;
  if (loop.mode === 'sequential') {
    work.draft.ctx = patchCtx(work.draft.ctx, set);
    return loop;
  }
  const clash = keys.find((key) => Object.hasOwn(loop.set, key) && !sameJson(loop.set[key], set[key]));
  const conflict = loop.conflict ?? clash;
  return { ...loop, set: { ...set, ...loop.set }, ...some('conflict', conflict) };
}

function loopDone(work: Work, event: KernelEvent): void {
  const { draft, owner } = work;
  const step = event.stepId === undefined ? undefined : draft.open.get(event.stepId);
  if (!step || event.logicalAttemptId !== step.attempt || isDuplicate(step, step.attempt, SEEN.LoopDone)) return;
  // The loop itself is kept until the step's token went on: a retry asks which indexes had finished.
  const payload = objectOf(event.payload);
  const marked = copyStep(step);
  marked.seen |= SEEN.LoopDone;
  marked.loopEnd = { count: countOf(payload['count']) ?? 0, failed: countOf(payload['failed']) ?? 0 };
  draft.open = draft.open.set(step.stepId, marked, owner);
}

export const LOOP_REDUCERS = {
  LoopStarted: loopStarted,
  LoopIterationScheduled: iteration('SCHEDULED', scheduled),
  LoopIterationStarted: iteration('STARTED', started),
  LoopIterationDone: iteration('DONE', ended),
  LoopIterationFailed: iteration('FAILED', failed),
  LoopDone: loopDone,
} as const satisfies Record<string, Reducer>;

import { AppError } from '../contracts/errors.ts';
import type { RunSnapshot } from '../contracts/snapshot.ts';
import { deepFreeze } from '../lib/deep-freeze.ts';
import type { SavedSnapshot, Store } from '../store/store.ts';
import { RunProjection } from './run-projection.ts';
import { blankState, revive, snapshotOf } from './snapshot-projector.ts';

export interface ReadSnapshotOptions {
  /** The run as it was after this event; the newest by default. */
  readonly asOf?: number;
  /** False takes the saved snapshot as it is, which may be a little behind. */
  readonly fresh?: boolean;
}

type Reader = Pick<Store, 'loadSnapshot' | 'readEvents'>;

const PAGE = 1000;

/** The snapshot of a run: what was saved, caught up with what came after it. Nothing is written. */
export async function readSnapshot(
  store: Reader,
  runId: string,
  options: ReadSnapshotOptions = {},
): Promise<RunSnapshot> {
  const { asOf, fresh = true } = options;
  if (asOf !== undefined && (!Number.isSafeInteger(asOf) || asOf < 0))
    throw new AppError('USAGE', `asOf must be a runSeq, not ${asOf}`, { asOf });
  const saved = await store.loadSnapshot(runId);
  if (saved && !fresh && (asOf === undefined || asOf === saved.lastEventSeq)) return deepFreeze(saved.snapshot);
  const start = saved && (await usable(store, runId, saved, asOf)) ? saved : undefined;
  const stale = saved?.snapshot.metadata.stale ?? false;
  // A gap in the tail is followed by a resync here as in the projector: the whole log, as it is.
  const first = await project(store, runId, start, asOf, false);
  if (!first.gap) return snapshotOf(first.state, stale);
  const again = await project(store, runId, undefined, asOf, true);
  return snapshotOf(again.state, stale || again.state.lastEventSeq < first.gap.nextSeq);
}

/** Whether to go on from the saved state: it must not be ahead, and know of every erasure. */
async function usable(store: Reader, runId: string, saved: SavedSnapshot, asOf: number | undefined): Promise<boolean> {
  if (saved.snapshot.metadata.stale) return false;
  if (asOf === undefined) return true;
  if (asOf < saved.lastEventSeq) return false;
  const erasures = { afterSeq: saved.lastEventSeq, types: ['PayloadErased'], limit: 1 };
  return (await store.readEvents(runId, erasures)).length === 0;
}

async function project(
  store: Reader,
  runId: string,
  saved: SavedSnapshot | undefined,
  asOf: number | undefined,
  resync: boolean,
): Promise<RunProjection> {
  const state = saved && revive(saved.state);
  const projection = new RunProjection(state ?? blankState(runId), {
    gapsThrough: resync || !state ? Number.POSITIVE_INFINITY : state.lastEventSeq,
    erasedThrough: state?.lastEventSeq ?? 0,
  });
  for (;;) {
    const page = await store.readEvents(runId, {
      afterSeq: projection.state.lastEventSeq,
      limit: PAGE,
      ...(asOf === undefined ? {} : { throughSeq: asOf }),
    });
    if (page.length === 0) return projection;
    projection.take(page);
    if (projection.gap) return projection;
    // After an erasure the projection begins again, so only a page that was taken can be the last one.
    if (page.length < PAGE && projection.state.lastEventSeq === page.at(-1)?.runSeq) return projection;
  }
}

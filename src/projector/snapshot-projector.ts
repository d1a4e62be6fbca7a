import { AppError } from '../contracts/errors.ts';
import type { RunSnapshot } from '../contracts/snapshot.ts';
import { detectNonContiguous, fold, type RecordedEvent } from '../kernel/evolve.ts';
import { initialState, type RunState } from '../kernel/state.ts';
import { fromJson } from '../kernel/state-json.ts';
import { toSnapshot } from '../kernel/to-snapshot.ts';
import type { SavedSnapshot } from '../store/store.ts';

/** The state that a snapshot is a view of. Kept beside it, because a view alone cannot be folded further. */
const STATES = new WeakMap<RunSnapshot, RunState>();

/** The view of a state, from which projection can go on. */
export function snapshotOf(state: RunState, stale = false): RunSnapshot {
  const snapshot = toSnapshot(state, { stale });
  STATES.set(snapshot, state);
  return snapshot;
}

/** A projection keeps every step, and of results and ancestors nothing: nobody decides on it. */
export function blankState(runId: string): RunState {
  return initialState(runId, { keepFinished: true });
}

/** A saved state, or undefined when another version wrote it: then the log has to be folded from its beginning. */
export function revive(text: string): RunState | undefined {
  try {
    return fromJson(JSON.parse(text));
  } catch (error) {
    if (error instanceof SyntaxError || (error instanceof AppError && error.code === 'SCHEMA_VALIDATION_FAILED'))
      return undefined;
    throw error;
  }
}

/** The projection of one run as the contract words it. All of it is the kernel's one fold. */
export class SnapshotProjector {
  /** Projects a whole log, in rising runSeq. */
  async projectRun(runId: string, events: readonly RecordedEvent[]): Promise<RunSnapshot> {
    return snapshotOf(fold(blankState(runId), events));
  }

  /**
   * Goes on from a snapshot that was projected or read in this process, from a saved one with its state, or from a
   * state. Events at or below its watermark change nothing. STALE stays until the whole log was read again.
   */
  async incrementalProject(
    from: RunSnapshot | SavedSnapshot | RunState,
    newEvents: readonly RecordedEvent[],
  ): Promise<RunSnapshot> {
    const { state, stale } = resume(from);
    return snapshotOf(fold(state, newEvents), stale);
  }

  /** Whether a gap was observed. It asks for a resync and says nothing about loss. */
  async detectNonContiguous(lastSeq: number, nextSeq: number): Promise<{ readonly observedNonContiguous: boolean }> {
    return detectNonContiguous(lastSeq, nextSeq);
  }
}

function resume(from: RunSnapshot | SavedSnapshot | RunState): { state: RunState; stale: boolean } {
  if ('retention' in from) return { state: from, stale: false };
  if ('metadata' in from) {
    const state = STATES.get(from);
    if (state) return { state, stale: from.metadata.stale };
    throw new AppError(
      'USAGE',
      'A copy of a snapshot cannot be projected further; give the saved snapshot with its state',
    );
  }
  const state = revive(from.state);
  if (!state) throw new AppError('SCHEMA_VALIDATION_FAILED', 'The saved state is of another version; project the log');
  return { state, stale: from.snapshot.metadata.stale };
}

import type { StoredValue } from '../../contracts/values.ts';
import { parseEntity } from '../../kernel/entity-path.ts';
import type { LoopState } from '../../kernel/state.ts';
import type { Store } from '../../store/store.ts';
import type { ArtifactStore } from '../../tools/tool.ts';
import type { RunView } from '../../worker/run-view.ts';
import { loadValue, shownValue } from '../../worker/store-result.ts';

const PAGE = 2000;

/** The results of a loop's iterations in the order of their indexes, read from the log. One that failed has none. */
export async function loopResult(
  store: Store,
  artifacts: ArtifactStore,
  view: RunView,
  loop: LoopState,
): Promise<unknown[]> {
  if (loop.mode === 'cursor') return cursorResult(store, artifacts, view, loop);
  const results: unknown[] = new Array(loop.count ?? loop.ended).fill(null);
  if (loop.results) {
    const carried = (await loadValue(artifacts, loop.results)) as unknown[];
    for (const index of loop.carried) results[index] = carried[index] ?? null;
  }
  for (let afterSeq = 0; ; ) {
    const page = await store.readEvents(view.run.runId, {
      types: ['LoopIterationDone'],
      entity: loop.stepId,
      afterSeq,
      limit: PAGE,
    });
    for (const { entity, logicalAttemptId, payload } of page) {
      const index = entity === undefined ? undefined : parseEntity(entity)?.iteration;
      if (index !== undefined && logicalAttemptId === loop.attempt)
        results[index] = shownValue(payload?.['result'] as StoredValue | undefined);
    }
    if (page.length < PAGE) return results;
    afterSeq = page.at(-1)!.runSeq;
  }
}

/** Of a cursor, the frames in the order of their indexes, or one after the other all rows of those that were worked on row by row. */
async function cursorResult(
  store: Store,
  artifacts: ArtifactStore,
  view: RunView,
  loop: LoopState,
): Promise<unknown[]> {
  const frames = new Map<number, unknown[]>();
  for (let afterSeq = 0; ; ) {
    const page = await store.readEvents(view.run.runId, {
      types: ['LoopIterationDone'],
      entity: loop.stepId,
      afterSeq,
      limit: PAGE,
    });
    for (const { logicalAttemptId, payload } of page) {
      if (logicalAttemptId !== loop.attempt || payload?.['exhausted'] === true) continue;
      const result = payload?.['result'] as StoredValue | undefined;
      const isByRow = typeof payload?.['rows'] === 'number';
      const rows = isByRow && result ? await loadValue(artifacts, result) : [shownValue(result)];
      frames.set(Number(payload?.['index']), rows as unknown[]);
    }
    if (page.length < PAGE) break;
    afterSeq = page.at(-1)!.runSeq;
  }
  return [...frames].sort(([a], [b]) => a - b).flatMap(([, rows]) => rows);
}

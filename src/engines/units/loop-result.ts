import type { StoredValue } from '../../contracts/values.ts';
import { parseEntity } from '../../kernel/entity-path.ts';
import type { LoopState } from '../../kernel/state.ts';
import type { Store } from '../../store/store.ts';
import type { ArtifactStore } from '../../tools/tool.ts';
import type { RunView } from '../../worker/run-view.ts';
import { loadValue } from '../../worker/store-result.ts';

const PAGE = 2000;

/** The results of a loop's iterations in the order of their indexes, read from the log. One that failed has none. */
export async function loopResult(
  store: Store,
  artifacts: ArtifactStore,
  view: RunView,
  loop: LoopState,
): Promise<unknown[]> {
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
      if (index !== undefined && logicalAttemptId === loop.attempt) results[index] = shown(payload?.['result']);
    }
    if (page.length < PAGE) return results;
    afterSeq = page.at(-1)!.runSeq;
  }
}

/** A large result stays where it is: the list names it, with the fields that were selected. */
function shown(result: unknown): unknown {
  const stored = result as StoredValue | undefined;
  if (stored === undefined) return null;
  if ('value' in stored) return stored.value;
  const { ref, store, totalBytes, extracted, preview } = stored;
  return { ...extracted, _ref: ref.uri, _store: store, total_bytes: totalBytes, preview: preview ?? null };
}

import type { LedgerRecord } from '../contracts/envelope.ts';
import type { StoredValue } from '../contracts/values.ts';
import type { PostgresStore } from '../store/postgres-store.ts';

const ITERATION = /^LoopIteration/;
const MOST = 60;
const PAGE = 1000;

/** What the iterations of a run are about. Their events have a number only; the list is in the event that began the loop. */
export class LoopItems {
  readonly #lists = new Map<string, { readonly iterator: string; readonly values: readonly unknown[] }>();

  /** Those of the loops that have begun, whichever events are shown. */
  static async of(store: PostgresStore, runId: string): Promise<LoopItems> {
    const items = new LoopItems();
    for (let afterSeq = 0; ; ) {
      const page = await store.readEvents(runId, { types: ['LoopStarted'], afterSeq, limit: PAGE });
      for (const record of page) items.take(record);
      if (page.length < PAGE) return items;
      afterSeq = page.at(-1)!.runSeq;
    }
  }

  take({ eventType, stepId, logicalAttemptId, payload }: LedgerRecord): void {
    if (eventType !== 'LoopStarted') return;
    const { iterator, list } = (payload ?? {}) as { iterator?: string; list?: StoredValue };
    // A long list is an artifact, and is not fetched for a word in a line.
    if (iterator === undefined || list === undefined || !('value' in list) || !Array.isArray(list.value)) return;
    this.#lists.set(`${stepId}@${logicalAttemptId}`, { iterator, values: list.value });
  }

  /** `city: Rome`, for an event of an iteration whose item is known. */
  phrase({ eventType, stepId, logicalAttemptId, payload }: LedgerRecord): string | undefined {
    const { index } = (payload ?? {}) as { index?: number };
    const list = this.#lists.get(`${stepId}@${logicalAttemptId}`);
    if (!ITERATION.test(eventType) || index === undefined || list === undefined || !(index in list.values))
      return undefined;
    const value = list.values[index];
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    return `${list.iterator}: ${text.length > MOST ? `${text.slice(0, MOST - 3)}...` : text}`;
  }
}

import type { LedgerRecord } from '../contracts/envelope.ts';
import type { Context } from './context.ts';

const PAGE = 10_000;

/** The whole log of a run. */
export async function readLog({ session }: Context, runId: string): Promise<LedgerRecord[]> {
  const store = await session.store();
  const records: LedgerRecord[] = [];
  for (;;) {
    const page = await store.readEvents(runId, { afterSeq: records.at(-1)?.runSeq ?? 0, limit: PAGE });
    records.push(...page);
    if (page.length < PAGE) return records;
  }
}

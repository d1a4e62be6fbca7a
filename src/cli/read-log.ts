import type { LedgerRecord } from '../contracts/envelope.ts';
import type { Context } from './context.ts';

const PAGE = 10_000;

/** The log of a run, up to an event or to its end. */
export async function readLog({ session }: Context, runId: string, throughSeq?: number): Promise<LedgerRecord[]> {
  const store = await session.store();
  const records: LedgerRecord[] = [];
  for (;;) {
    const page = await store.readEvents(runId, {
      afterSeq: records.at(-1)?.runSeq ?? 0,
      limit: PAGE,
      ...(throughSeq === undefined ? {} : { throughSeq }),
    });
    records.push(...page);
    if (page.length < PAGE) return records;
  }
}

import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LedgerRecord } from '../contracts/envelope.ts';

/** Waits for a condition, longer than any machine needs: what is tested is that it comes, not when. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 60_000; !(await holds()); await sleep(10)) {
    if (Date.now() > end) throw new Error('it did not happen');
  }
}

/** What the tools of the engine tests left in a file, a line for each call. */
export function traces(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n').filter(Boolean);
  } catch {
    return [];
  }
}

export const of = (events: readonly LedgerRecord[], type: string): LedgerRecord[] =>
  events.filter((event) => event.eventType === type);

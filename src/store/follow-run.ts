import type { LedgerRecord } from '../contracts/envelope.ts';
import { AppError } from '../contracts/errors.ts';
import type { Postgres } from './sql/postgres.ts';
import { type RunIdentity, readRunEvents } from './sql/read-events.ts';
import type { WakeUp } from './wake-up.ts';

/** The poll behind the notifications. */
const POLL_MS = 1000;
const PAGE = 500;

/** Yields the events of a run in order and waits for new ones. A database that goes away is waited for. */
export async function* followRun(
  postgres: Postgres,
  wakeUp: WakeUp,
  run: RunIdentity,
  options: { afterSeq?: number; signal?: AbortSignal },
): AsyncIterable<LedgerRecord> {
  const { signal } = options;
  let afterSeq = options.afterSeq ?? 0;
  let woken = true;
  let wake: (() => void) | undefined;
  const onWake = () => {
    woken = true;
    wake?.();
  };
  const unwatch = wakeUp.watch(run.runKey, onWake);
  signal?.addEventListener('abort', onWake);
  try {
    while (!signal?.aborted) {
      woken = false;
      const page = await readPage(postgres, run, afterSeq);
      for (const record of page) {
        if (signal?.aborted) return;
        afterSeq = record.runSeq;
        yield record;
      }
      if (page.length === PAGE || woken || signal?.aborted) continue;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, POLL_MS);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      wake = undefined;
    }
  } finally {
    unwatch();
    signal?.removeEventListener('abort', onWake);
  }
}

async function readPage(postgres: Postgres, run: RunIdentity, afterSeq: number): Promise<LedgerRecord[]> {
  try {
    return await readRunEvents(postgres, run, { afterSeq, limit: PAGE });
  } catch (error) {
    if (error instanceof AppError && error.code === 'STORE_UNAVAILABLE') return [];
    throw error;
  }
}

import { afterEach, expect, test, vi } from 'vitest';
import type { ListeningConnection, Postgres } from './sql/postgres.ts';
import { WakeUp } from './wake-up.ts';
import { PostgresWorkSignals } from './work-signals.ts';

afterEach(() => void vi.useRealTimers());

/** Connections that note what is notified, and hear of it themselves, as in a database with nobody else. */
function recording() {
  const notified: string[] = [];
  const listeners: ((message: { channel: string; payload: string }) => void)[] = [];
  const connection = {
    query: async (statement: string | { values?: unknown[] }, values?: unknown[]) => {
      const [channel, payload] = (values ?? (typeof statement === 'string' ? [] : statement.values) ?? []) as string[];
      if (channel === undefined || payload === undefined) return { rows: [], rowCount: 0 };
      notified.push(`${channel} ${payload}`);
      for (const listener of listeners) listener({ channel, payload });
      return { rows: [], rowCount: 1 };
    },
    on: (event: string, listener: (typeof listeners)[number]) =>
      void (event === 'notification' && listeners.push(listener)),
    end: async () => {},
  };
  const postgres = { dedicated: async () => connection as unknown as ListeningConnection };
  return { notified, postgres: postgres as unknown as Postgres };
}

test('a clock that is set back does not silence what workers tell each other', async () => {
  vi.useFakeTimers({ now: Date.UTC(2026, 5, 1) });
  const { notified, postgres } = recording();
  const signals = new PostgresWorkSignals(postgres);
  signals.work();
  await vi.advanceTimersByTimeAsync(20);
  vi.setSystemTime(Date.now() - 3_600_000);
  signals.work();
  signals.stop(7);
  await vi.advanceTimersByTimeAsync(20);
  expect(notified).toEqual(['runledger_work w;', 'runledger_work w;7']);
  await signals.close();
});

test('a clock that is set back does not silence who appends to a run that others follow', async () => {
  vi.useFakeTimers({ now: Date.UTC(2026, 5, 1) });
  const { notified, postgres } = recording();
  const wakeUp = new WakeUp(postgres);
  const leave = wakeUp.watch(5, () => {});
  await vi.advanceTimersByTimeAsync(20);
  for (const back of [0, 3_600_000]) {
    vi.setSystemTime(Date.now() - back);
    wakeUp.changed(5);
    await vi.advanceTimersByTimeAsync(20);
  }
  expect(notified.filter((text) => text === 'runledger_changed 5')).toHaveLength(2);
  leave();
  await wakeUp.close();
});

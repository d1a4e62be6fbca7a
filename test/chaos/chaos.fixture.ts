import { expect, onTestFailed } from 'vitest';
import type { PostgresStore } from '../../src/store/postgres-store.ts';
import { verifyChain } from '../../src/store/verify-chain.ts';
import { testSeed } from '../setup/seed.ts';
import { mulberry32, type Said } from './said.fixture.ts';

/** More rounds than the default, for a long night. */
export const chaosRounds = (standard: number): number => Number(process.env['RUNLEDGER_CHAOS_ROUNDS'] ?? standard);

/** Numbers that come again with the same seed, which is printed if the test fails. */
export function seededRandom(): () => number {
  onTestFailed(() => console.error(`failed with TEST_SEED=${testSeed}`));
  return mulberry32(testSeed);
}

/**
 * After any crash: every acknowledged event is there exactly once and as it was acknowledged, calls were stored whole or
 * not at all, sequences have no gaps, chains verify, and the run rows agree with their logs.
 */
export async function checkLogs(
  store: PostgresStore,
  said: readonly Said[],
): Promise<{ runs: number; events: number }> {
  const created = new Set(said.flatMap((line) => (line.kind === 'created' ? [line.runId] : [])));
  const rows = await store.postgres.query<{ run_id: string }>({ text: 'select run_id from runledger.runs' });
  const runIds = new Set(rows.map((row) => row.run_id));
  for (const runId of created) expect(runIds, `acknowledged run ${runId}`).toContain(runId);
  const acknowledged = groupBy(
    said.flatMap((line) => (line.kind === 'stored' ? line.events : [])),
    (event) => event.runId,
  );
  const tries = groupBy(
    said.flatMap((line) => (line.kind === 'try' ? [line] : [])),
    (line) => line.runId,
  );
  let events = 0;
  for (const runId of runIds) {
    const records = await readAll(store, runId);
    events += records.length;
    expect(records.length, `run ${runId} was stored without its first event`).toBeGreaterThan(0);
    expect(records.map((record) => record.runSeq)).toEqual(records.map((_, i) => i + 1));
    const report = verifyChain(records);
    expect(report).toMatchObject({ ok: true });
    const run = await store.findRun(runId);
    expect(run).toMatchObject({ lastSeq: records.length, chainHead: report.ok && report.head.chainHash });
    const byKey = new Map(records.map((record) => [record.idempotencyKey, record]));
    expect(byKey.size).toBe(records.length);
    for (const event of acknowledged.get(runId) ?? []) {
      const record = byKey.get(event.key);
      expect(
        record && { ...event, eventId: record.eventId, runSeq: record.runSeq, persistedAt: record.persistedAt },
      ).toEqual(event);
    }
    for (const { keys } of tries.get(runId) ?? []) {
      const stored = keys.filter((key) => byKey.has(key)).length;
      expect([0, keys.length], `a call of ${keys.length} events left ${stored} in run ${runId}`).toContain(stored);
    }
  }
  for (const runId of acknowledged.keys()) expect(runIds).toContain(runId);
  return { runs: runIds.size, events };
}

async function readAll(store: PostgresStore, runId: string) {
  const records = [];
  for (;;) {
    const page = await store.readEvents(runId, { afterSeq: records.length, limit: 5000 });
    records.push(...page);
    if (page.length < 5000) return records;
  }
}

function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group) group.push(item);
    else groups.set(keyOf(item), [item]);
  }
  return groups;
}

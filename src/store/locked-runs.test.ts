import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../test/setup/database.ts';
import { runStarted, sampleEvent, sampleRun } from '../testing/sample-events.ts';
import { PostgresStore } from './postgres-store.ts';

let database: TestDatabase;
let store: PostgresStore;
beforeAll(async () => {
  database = await createTestDatabase();
  store = await PostgresStore.open({ url: database.url, maxConnections: 2 });
});
afterAll(async () => {
  await store.close();
  await database.drop();
});

test('more decisions under locks than there are connections do not wait for each other’s', async () => {
  const runs = await Promise.all(
    Array.from({ length: 8 }, async () => {
      const run = sampleRun(randomUUID());
      const events = [...run.events!, runStarted(run)];
      return { ...run, runKey: (await store.work.startRun({ ...run, events }, [])).runKey };
    }),
  );
  // Each of them that held a lock and waited for a second connection would keep its own, until all give up.
  const results = await Promise.all(
    runs.map((run) =>
      store.work.locked(run, 0, async (missing, commit) => {
        const paused = [sampleEvent(run, { eventType: 'RunPaused' })];
        const late = await commit({ run, decision: paused, expectedHead: 1, seenSeq: 0 });
        const { ok } = await commit({ run, decision: paused, expectedHead: 2, seenSeq: 0 });
        return [missing.length, late.ok ? [] : late.missing.length, ok];
      }),
    ),
  );
  expect(results).toEqual(runs.map(() => [2, 2, true]));
}, 60_000);

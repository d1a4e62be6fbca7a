import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../test/setup/database.ts';
import type { LedgerRecord, RunEventWrite } from '../contracts/envelope.ts';
import { runStarted, sampleEvent, sampleRun } from '../testing/sample-events.ts';
import { PostgresStore } from './postgres-store.ts';
import { prepareEvent } from './prepared-event.ts';
import { encodeCalls } from './sql/encode-batch.ts';
import type { StreamCursor } from './sql/read-stream.ts';
import { horizonHolder, streamSnapshot } from './sql/stream-snapshot.ts';
import type { NewRun } from './store.ts';
import { verifyChain } from './verify-chain.ts';

let database: TestDatabase;
let stores: PostgresStore[];
beforeAll(async () => {
  database = await createTestDatabase();
  const client = await rawClient();
  // Deadlocks are provoked on purpose; waiting a second for each would make up most of the test.
  await client.query(`alter database ${new URL(database.url).pathname.slice(1)} set deadlock_timeout = '20ms'`);
  await client.end();
  const open = () => PostgresStore.open({ url: database.url, maxConnections: 6 });
  stores = await Promise.all([open(), open(), open()]);
});
afterAll(async () => {
  for (const store of stores) await store.close();
  await database.drop();
});

let counter = 0;
const task = (run: NewRun): RunEventWrite => {
  counter += 1;
  const payload = { attempts: 1, result: { value: counter } };
  return sampleEvent(run, { eventType: 'TaskDone', stepId: 'a', entity: `a/get:${counter}`, payload });
};

async function startedRun(store: PostgresStore): Promise<NewRun> {
  const run = sampleRun(randomUUID());
  await store.createRun(run);
  await store.append([runStarted(run)], { as: 'control' });
  return run;
}

async function rawClient(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url, application_name: 'a slow report' });
  client.on('error', () => {});
  await client.connect();
  return client;
}

/** Appends inside a transaction that somebody else ends. */
async function appendRaw(client: pg.Client, runs: readonly { run: NewRun; key: number }[]): Promise<void> {
  const calls = [...runs]
    .sort((a, b) => a.key - b.key)
    .map(({ run, key }) => ({
      runKey: key,
      events: [prepareEvent(task(run), { as: 'worker', maxEventBytes: 1000 })],
    }));
  const values = encodeCalls(calls);
  await client.query(`select runledger.append_core(${values.map((_, i) => `$${i + 1}`).join(', ')})`, values);
}

/** Pages through the stream as a delivery would, and checks on the way that the cursor only goes forward. */
class Reader {
  readonly records: LedgerRecord[] = [];
  cursor: StreamCursor | undefined;

  async page(store: PostgresStore, limit: number): Promise<number> {
    const page = await store.readStream(this.cursor, limit);
    for (const { cursor, record } of page) {
      expect(order(this.cursor, cursor)).toBeLessThan(0);
      this.cursor = cursor;
      this.records.push(record);
    }
    return page.length;
  }

  async until(store: PostgresStore, count: number): Promise<void> {
    const deadline = Date.now() + 20_000;
    while (this.records.length < count) {
      if ((await this.page(store, 500)) === 0) await sleep(5);
      if (Date.now() > deadline) throw new Error(`${this.records.length} of ${count} events came through the stream`);
    }
  }
}

function order(a: StreamCursor | undefined, b: StreamCursor): number {
  if (!a) return -1;
  return a.era - b.era || a.xid - b.xid || a.runKey - b.runKey || a.runSeq - b.runSeq;
}

const plan = fc.record({
  /** Which runs each batch of each writer touches. */
  writers: fc.array(fc.array(fc.array(fc.nat(4), { minLength: 1, maxLength: 4 }), { minLength: 10, maxLength: 25 }), {
    minLength: 3,
    maxLength: 6,
  }),
  /** Transactions of others: what they lock or append to, in which order, how long they stay open, how they end. */
  others: fc.array(
    fc.array(
      fc.record({
        kind: fc.constantFrom('append', 'append', 'locks', 'serializable'),
        runs: fc.uniqueArray(fc.nat(4), { minLength: 2, maxLength: 3 }),
        holdMs: fc.constantFrom(0, 2, 15, 60),
        commit: fc.boolean(),
      }),
      { minLength: 4, maxLength: 10 },
    ),
    { minLength: 2, maxLength: 4 },
  ),
  pages: fc.array(fc.constantFrom(1, 3, 20, 500), { minLength: 3, maxLength: 3 }),
});

test('ES-4a a cursor sees every event once and each run in order, while writers commit, roll back, dawdle and deadlock', async () => {
  await fc.assert(
    fc.asyncProperty(plan, async ({ writers, others, pages }) => {
      const runs = await Promise.all(
        [0, 1, 2, 3, 4].map(async (i) => {
          const run = await startedRun(stores[i % 3]!);
          return { run, key: (await stores[0]!.findRun(run.runId))!.runKey };
        }),
      );
      const ids = new Set(runs.map(({ run }) => run.runId));
      const clients = await Promise.all(others.map(rawClient));
      let writing = true;
      const readers = pages.map(async (limit, i) => {
        const reader = new Reader();
        while (writing) if ((await reader.page(stores[i]!, limit)) < limit) await sleep(1);
        return reader;
      });
      const write = async (batches: readonly (readonly number[])[], w: number): Promise<void> => {
        for (const batch of batches) {
          const calls = batch.map((i) => ({ events: [task(runs[i]!.run)], options: { as: 'worker' as const } }));
          for (const result of await stores[w % 3]!.appendMany(calls)) if (!result.ok) throw result.error;
        }
      };
      const disturb = async (client: pg.Client, acts: (typeof others)[number]): Promise<void> => {
        for (const { kind, runs: which, holdMs, commit } of acts) {
          const chosen = which.map((i) => runs[i]!);
          try {
            await client.query(kind === 'serializable' ? 'begin isolation level serializable' : 'begin');
            if (kind === 'locks') {
              // In the order of the plan, not of the keys: batches that lock in key order will deadlock with this.
              for (const { key } of chosen) {
                await client.query('select 1 from runledger.runs where run_key = $1 for update', [key]);
                await sleep(3);
              }
            } else {
              await appendRaw(client, chosen);
            }
            await sleep(holdMs);
            await client.query(commit ? 'commit' : 'rollback');
          } catch (error) {
            const { code } = error as { code?: string };
            if (code !== '40P01' && code !== '40001') throw error;
            await client.query('rollback');
          }
        }
      };
      await Promise.all([...writers.map(write), ...clients.map((client, i) => disturb(client, others[i]!))]);
      writing = false;
      await Promise.all(clients.map((client) => client.end()));
      const logs = await Promise.all(runs.map(({ run }) => stores[0]!.readEvents(run.runId, { limit: 10_000 })));
      const total = (
        await stores[0]!.postgres.query<{ n: number }>({
          name: 'all_events',
          text: 'select count(*)::int as n from runledger.run_events',
        })
      )[0]!.n;
      for (const [i, reader] of (await Promise.all(readers)).entries()) {
        await reader.until(stores[i]!, total);
        expect(await reader.page(stores[i]!, 500)).toBe(0);
        const mine = reader.records.filter((record) => ids.has(record.runId));
        for (const log of logs) {
          expect(log.map((record) => record.runSeq)).toEqual(log.map((_, i) => i + 1));
          const streamed = mine.filter((record) => record.runId === log[0]!.runId);
          expect(streamed.map((record) => record.runSeq)).toEqual(log.map((record) => record.runSeq));
          expect(verifyChain(streamed)).toMatchObject({ ok: true, records: log.length });
        }
        expect(mine).toHaveLength(logs.flat().length);
      }
    }),
    { seed: 20_260_211, numRuns: 6, endOnFailure: true },
  );
  const text = 'select deadlocks::int as n from pg_stat_database where datname = current_database()';
  const deadlocks = async () => (await stores[0]!.postgres.query<{ n: number }>({ name: 'deadlocks', text }))[0]!.n;
  await expect.poll(deadlocks, { timeout: 15_000 }).toBeGreaterThan(0);
}, 60_000);

test('ES-4a a transaction that stays open holds back delivery, is named, and does not keep readers of single runs waiting', async () => {
  const store = stores[0]!;
  const run = await startedRun(store);
  const reader = new Reader();
  const client = await rawClient();
  await client.query('begin');
  const { pid, xid } = (await client.query(`select pg_backend_pid() as pid, pg_current_xact_id()::text as xid`))
    .rows[0];
  try {
    const follow = new AbortController();
    const followed: number[] = [];
    const following = (async () => {
      for await (const record of stores[1]!.follow(run.runId, { afterSeq: 2, signal: follow.signal })) {
        followed.push(record.runSeq);
        if (followed.length === 2) follow.abort();
      }
    })();
    await store.append([task(run), task(run)], { as: 'worker' });
    await following;
    expect(followed).toEqual([3, 4]);
    expect(await store.readEvents(run.runId, { afterSeq: 2 })).toHaveLength(2);
    while ((await reader.page(store, 500)) > 0);
    expect(reader.records.filter((record) => record.runId === run.runId && record.runSeq > 2)).toEqual([]);
    const now = await streamSnapshot(store.postgres);
    expect(now.inFlight).toContain(Number(xid));
    expect(await horizonHolder(store.postgres, Number(xid))).toMatchObject({ pid, application: 'a slow report' });
    // On a shared server somebody else's transaction may be older for a moment; then this one is the oldest.
    await expect.poll(async () => (await streamSnapshot(store.postgres)).xmin, { timeout: 10_000 }).toBe(Number(xid));
  } finally {
    await client.query('rollback');
    await client.end();
  }
  expect(await horizonHolder(store.postgres, Number(xid))).toBeUndefined();
  await expect
    .poll(
      async () => {
        await reader.page(store, 500);
        return reader.records.filter((record) => record.runId === run.runId).map((record) => record.runSeq);
      },
      { timeout: 10_000 },
    )
    .toEqual([1, 2, 3, 4]);
});

test('ES-4a a run that a younger transaction wrote first keeps its order in the stream', async () => {
  const [store] = stores as [PostgresStore];
  const run = await startedRun(store);
  const key = (await store.findRun(run.runId))!.runKey;
  const older = await rawClient();
  // The older transaction has its number already, but comes to the run after the younger one has written and gone.
  await older.query('begin');
  await older.query('select pg_current_xact_id()');
  await store.append([task(run)], { as: 'worker' });
  await appendRaw(older, [{ run, key }]);
  await older.query('commit');
  await older.end();
  const rows = await store.postgres.query<{ xid: string }>(
    {
      name: 'xids',
      text: 'select stream_xid::text as xid from runledger.run_events where run_key = $1 order by run_seq',
    },
    [key],
  );
  expect(rows).toHaveLength(4);
  const xids = rows.map((row) => Number(row.xid));
  expect(xids).toEqual([...xids].sort((a, b) => a - b));
  const reader = new Reader();
  await expect
    .poll(async () => {
      await reader.page(store, 500);
      return reader.records.filter((record) => record.runId === run.runId).map((record) => record.runSeq);
    })
    .toEqual([1, 2, 3, 4]);
});

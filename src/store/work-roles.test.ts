import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../test/setup/database.ts';
import { runStarted, sampleEvent, sampleRun } from '../testing/sample-events.ts';
import { PostgresStore } from './postgres-store.ts';
import type { RunIdentity } from './sql/read-events.ts';
import type { Lease, WorkCommit } from './work.ts';

/** Roles belong to the whole server, so its name must be this file's own. */
const APPLICATION = `rl_work_${randomUUID().slice(0, 8)}`;
let database: TestDatabase;
let owner: pg.Client;
let store: PostgresStore;
beforeAll(async () => {
  database = await createTestDatabase();
  owner = new pg.Client({ connectionString: database.url });
  await owner.connect();
  await owner.query(`create role ${APPLICATION} login password 'x'; select runledger.grant_use('${APPLICATION}')`);
  const url = new URL(database.url);
  [url.username, url.password] = [APPLICATION, 'x'];
  store = await PostgresStore.open({ url: url.href });
});
afterAll(async () => {
  await store?.close();
  await owner.query(`drop owned by ${APPLICATION}; drop role ${APPLICATION}`);
  await owner.end();
  await database.drop();
});

interface Held {
  readonly run: RunIdentity;
  readonly lease: Lease;
}

async function started(): Promise<Held> {
  const run = sampleRun(randomUUID());
  const { runKey, leases } = await store.work.startRun({ ...run, events: [...run.events!, runStarted(run)] }, [
    { unit: 's:a@1', owner: 'me', leaseMs: 30_000 },
  ]);
  return { run: { ...run, runKey }, lease: leases[0]! };
}

const factOf = (run: RunIdentity, n: number) =>
  sampleEvent(run, { eventType: 'TaskDone', stepId: 'a', entity: `a/get:${n}`, payload: { attempts: 1 } });

async function commit({ run, ...given }: Partial<WorkCommit> & Pick<WorkCommit, 'run'>): Promise<readonly Lease[]> {
  const result = await store.work.commit({ run, owner: 'me', ...given });
  if (!result.ok) throw result.error;
  return [...result.leases, ...result.handouts];
}

/** Ends the unit and begins the next one, as a line of steps does. */
async function handOver({ run, lease }: Held, unit: string): Promise<Held> {
  const { decidedSeq, lastSeq } = (await store.findRun(run.runId))!;
  const [next] = await commit({
    run,
    expectedHead: decidedSeq,
    facts: [factOf(run, lastSeq)],
    work: [
      { op: 'delete', ...lease },
      { op: 'insert', unit, lease: true },
    ],
  });
  return { run, lease: next! };
}

test('the application’s role can use every verb of work', async () => {
  const [one, two, three] = [await started(), await started(), await started()];
  const lone = await handOver(one, 's:b@1');
  // Those of two runs at once share a call.
  const [moved] = await Promise.all([handOver(two, 's:b@1'), handOver(three, 's:b@1')]);

  const { run } = lone;
  const begin = { op: 'begin', loop: 'b@1', next: 1, total: 3, inFlight: 1, maxInFlight: 1, skip: [] } as const;
  const [first] = await commit({
    run,
    facts: [factOf(run, 100)],
    work: [
      { op: 'delete', ...lone.lease },
      { op: 'insert', unit: 'i:b@1/0', lease: true },
    ],
    loops: [begin],
  });
  const [second] = await commit({
    run,
    facts: [factOf(run, 101)],
    work: [{ op: 'delete', ...first! }],
    loops: [{ op: 'ended', loop: 'b@1', stop: false }],
  });
  expect(second).toMatchObject({ unit: 'i:b@1/1' });

  const lease = { runKey: run.runKey, ...second! };
  expect(await store.work.renew([lease], 30_000)).toEqual([{ held: true, stop: false }]);
  const fence = (await store.work.burn(lease, 30_000))!;
  await store.work.release([{ ...lease, fence }]);
  expect(await store.work.wake(run.runId, 'i:b@1/1')).toBe(true);
  const [claimed] = await store.work.claim('me', { limit: 1, leaseMs: 30_000, scope: { runs: [run.runId] } });
  expect(claimed).toMatchObject({ unit: 'i:b@1/1' });
  expect(await store.work.discard({ ...lease, fence: claimed!.fence })).toBe(true);
  const { lastSeq } = (await store.findRun(run.runId))!;
  const request = { atSeq: lastSeq, units: [{ unit: 's:c@1', held: false }], loops: [] };
  expect(await store.work.repair(run.runId, request)).toBe(1);
  expect(await store.work.claimUnit(run.runId, 's:c@1', 'me', 30_000)).toMatchObject({ state: 'claimed' });
  expect(await store.work.list(run.runId)).toHaveLength(1);
  expect(await store.work.checkIn('me', 'here')).toEqual([]);
  expect(await store.work.releaseOwners(['me'])).toBeGreaterThan(0);
  expect(await store.work.overdue('native', { olderThanMs: 60_000, limit: 1 })).toEqual([]);
  expect(await store.work.findReceipt(run.tenantId, 'none')).toBeUndefined();
  expect(await store.work.openChildren(run.runId)).toEqual([]);
  const plan = { sha256: 'ab'.repeat(32), planId: 'p', planVersion: '1', schemaVersion: '1', body: '{}' };
  await store.work.putPlan(plan);
  expect(await store.work.findPlan(plan.sha256)).toEqual(plan);

  const locked = await store.work.locked(moved.run, 0, async (missing, commitLocked) => {
    const result = await commitLocked({ run: moved.run, facts: [factOf(moved.run, 102)], owner: 'me' });
    return { result, missing };
  });
  expect(locked.result.ok).toBe(true);
  expect(locked.missing.length).toBeGreaterThan(0);
});

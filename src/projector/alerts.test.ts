import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { Compile } from 'typebox/compile';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Alert } from '../contracts/alerts.ts';
import { PostgresStore } from '../store/postgres-store.ts';
import { sampleError } from '../testing/sample-events.ts';
import {
  alertsOf,
  appendAll,
  forge,
  openBench,
  type ProjectorBench,
  projectAll,
  runningRun,
  savedSnapshot,
  stepOf,
  wholeProjection,
  withFault,
} from './projector.fixture.ts';
import { createProjector } from './projector.ts';

let bench: ProjectorBench;
beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench?.close());

const INVALID = [
  { type: 'StepCompleted', step: 'a' },
  { type: 'RunCompleted' },
  { type: 'RunFailed', payload: { error: sampleError } },
];

test('RE-5.3c RE-5.3e an invalid transition is ignored, marks the run INCONSISTENT, keeps the terminal status and raises an alert', async () => {
  const run = await runningRun(bench.store);
  await forge(bench.store, run, INVALID);
  await projectAll(createProjector(bench));
  const snapshot = await savedSnapshot(bench.store, run);
  expect(snapshot).toMatchObject({
    status: 'COMPLETED',
    lastEventSeq: 5,
    metadata: { inconsistent: true, stale: false },
  });
  expect(snapshot.steps).toEqual([]);
  expect(snapshot).not.toHaveProperty('rootCause');
  expect((await alertsOf(bench.store, run, 'INVALID_TRANSITION')).map((alert) => alert.eventType)).toEqual([
    'StepCompleted',
    'RunFailed',
  ]);
  // What comes after it is projected as before.
  await forge(bench.store, run, [{ type: 'SignalAccepted', payload: { signalId: 's', signalType: 'PAUSE' } }]);
  await projectAll(createProjector(bench));
  expect(await savedSnapshot(bench.store, run)).toEqual({ ...snapshot, lastEventSeq: 6 });
});

test('RE-5.3e the policy is written down', async () => {
  const page = await readFile(new URL('../../docs/decisions/invalid-transitions.md', import.meta.url), 'utf8');
  expect(page).toMatch(/policy A, everywhere and without an option/);
});

test('RE-5.4a the alert names run, scope, event, place, time, both states and its code', async () => {
  const run = await runningRun(bench.store);
  await forge(bench.store, run, INVALID);
  await projectAll(createProjector(bench));
  const [, , completed, , failed] = await bench.store.readEvents(run.runId);
  const schema = Compile(Alert);
  const alerts = await alertsOf(bench.store, run, 'INVALID_TRANSITION');
  for (const alert of alerts) expect([...schema.Errors(alert)]).toEqual([]);
  const scope = { runId: run.runId, tenantId: 'tenant_acme', projectId: 'proj_marketing', environmentId: 'prod' };
  expect(alerts).toMatchObject([
    {
      code: 'INVALID_TRANSITION',
      severity: 'P2',
      ...scope,
      eventId: completed?.eventId,
      eventType: 'StepCompleted',
      runSeq: 3,
      persistedAt: completed?.persistedAt,
      details: { priorState: 'PENDING', attemptedState: 'SUCCESS', stepId: 'a' },
    },
    {
      code: 'INVALID_TRANSITION',
      ...scope,
      eventId: failed?.eventId,
      eventType: 'RunFailed',
      runSeq: 5,
      persistedAt: failed?.persistedAt,
      details: { priorState: 'COMPLETED', attemptedState: 'FAILED' },
    },
  ]);
});

test('RE-5.4a the alert is raised once per (runId, eventId), also when everything is projected again from nothing', async () => {
  const run = await runningRun(bench.store);
  await forge(bench.store, run, INVALID);
  for (let i = 0; i < 3; i++) {
    await bench.store.postgres.query({ name: 'forget', text: 'truncate runledger.snapshots, runledger.cursors' });
    const projector = createProjector(bench);
    await projectAll(projector);
    expect(projector.report().violations).toBeGreaterThanOrEqual(2);
  }
  expect(await alertsOf(bench.store, run, 'INVALID_TRANSITION')).toHaveLength(2);
});

test('RE-5.4a an alert and the projection that found it are saved together or not at all', async () => {
  const run = await runningRun(bench.store);
  await projectAll(createProjector(bench));
  await forge(bench.store, run, INVALID);
  const store = withFault(bench.store, {
    beforeSave: async () => {
      throw new Error('killed');
    },
  });
  await createProjector({ store, onError: () => {} }).runOnce();
  expect(await alertsOf(bench.store, run, 'INVALID_TRANSITION')).toEqual([]);
  expect((await savedSnapshot(bench.store, run)).lastEventSeq).toBe(2);
  await projectAll(createProjector(bench));
  expect(await alertsOf(bench.store, run, 'INVALID_TRANSITION')).toHaveLength(2);
});

test('several projectors of two processes at once project each event once, and raise each alert once', async () => {
  const other = await PostgresStore.open({ url: bench.url });
  try {
    await projectAll(createProjector(bench));
    const runs = await Promise.all(Array.from({ length: 40 }, () => runningRun(bench.store)));
    for (const run of runs) await forge(bench.store, run, INVALID);
    const projectors = [bench.store, bench.store, other, other].map((store) => createProjector({ store, pollMs: 5 }));
    for (const projector of projectors) projector.start();
    for (let i = 0; i < 5; i++) {
      for (const run of runs) await forge(bench.store, run, [{ type: 'FromTheFuture' }]);
    }
    await expect
      .poll(
        async () => (await Promise.all(runs.map((run) => savedSnapshot(bench.store, run)))).map((s) => s.lastEventSeq),
        {
          timeout: 25_000,
        },
      )
      .toEqual(runs.map(() => 10));
    await Promise.all(projectors.map((projector) => projector.stop()));
    const events = projectors.reduce((sum, projector) => sum + projector.report().events, 0);
    expect(events).toBe(40 * 10);
    for (const run of runs) {
      expect(await savedSnapshot(bench.store, run)).toEqual(await wholeProjection(bench.store, run));
      expect(await alertsOf(bench.store, run, 'INVALID_TRANSITION')).toHaveLength(2);
    }
  } finally {
    await other.close();
  }
});

test('ES-1.4c a lag above 5 s raises PROJECTOR_LAG_HIGH (P2), once for as long as it lasts', async () => {
  const lags = async () => bench.store.listAlerts({ code: 'PROJECTOR_LAG_HIGH' });
  const run = await runningRun(bench.store);
  let aheadMs = 1000;
  const held = {
    stand: (stand: { claimed: boolean }) => ({ ...stand, claimed: false }) as never,
    aheadMs: () => aheadMs,
  };
  const options = { store: withFault(bench.store, held), episodeQuietMs: 60_000 };
  const [first, second] = [createProjector(options), createProjector(options)];
  await first.runOnce();
  expect(first.lag()).toBeGreaterThan(1000);
  expect(first.lag()).toBeLessThanOrEqual(5000);
  expect(await lags()).toEqual([]);
  aheadMs = 8000;
  for (let i = 0; i < 3; i++) await Promise.all([first.runOnce(), second.runOnce(), sleep(50)]);
  expect(first.lag()).toBeGreaterThan(8000);
  const [alert, ...more] = await lags();
  expect(more).toEqual([]);
  expect(alert).toMatchObject({ severity: 'P2', details: { limitMs: 5000 } });
  expect(alert?.details?.['lagMs']).toBeGreaterThan(5000);
  const [oldest] = await bench.store.readEvents(run.runId);
  expect(alert?.persistedAt).toBe(oldest?.persistedAt);
  expect([...Compile(Alert).Errors(alert)]).toEqual([]);
  // Projected: the lag is gone. When it comes back later it is another episode.
  await projectAll(createProjector(bench));
  await projectAll(createProjector({ ...options, store: withFault(bench.store, { aheadMs: () => aheadMs }) }));
  expect(await lags()).toHaveLength(1);
  await appendAll(bench.store, stepOf(run, 'a'));
  const quiet = `update runledger.episodes set seen_at = seen_at - interval '61 seconds'`;
  await bench.store.postgres.query({ name: 'quiet_for_a_minute', text: quiet });
  await createProjector(options).runOnce();
  expect(await lags()).toHaveLength(2);
  await projectAll(createProjector(bench));
});

test('lag counts from the oldest event that is not projected, by the clock of the database', async () => {
  const run = await runningRun(bench.store);
  await projectAll(createProjector(bench));
  await forge(bench.store, run, [
    { type: 'FromTheFuture', ageMs: 90_000 },
    { type: 'FromTheFuture', ageMs: 10 },
  ]);
  const blind = withFault(bench.store, { stand: (stand) => ({ ...stand, claimed: false }) });
  const projector = createProjector({ store: blind, episodeQuietMs: 60_000 });
  await projector.runOnce();
  expect(projector.lag()).toBeGreaterThanOrEqual(90_000);
  expect(projector.lag()).toBeLessThan(120_000);
  const whole = createProjector(bench);
  await projectAll(whole);
  expect(whole.lag()).toBe(0);
  expect(whole.report().worstLagMs).toBeGreaterThanOrEqual(90_000);
});

test('a transaction that holds the horizon raises STREAM_HORIZON_HELD with its session, and projection does not wait for it', async () => {
  const session = new pg.Client({ connectionString: bench.url, application_name: 'nightly report' });
  await session.connect();
  try {
    await session.query('begin');
    const { rows } = await session.query('select pg_backend_pid() as pid, pg_current_xact_id()::text as xid');
    const run = await runningRun(bench.store);
    const projector = createProjector({ ...bench, horizonAlertMs: 100 });
    const held = async () =>
      (await bench.store.listAlerts({ code: 'STREAM_HORIZON_HELD' })).filter((a) =>
        a.message.includes('nightly report'),
      );
    await expect
      .poll(
        async () => {
          await projector.runOnce();
          return held();
        },
        { timeout: 25_000, interval: 50 },
      )
      .toHaveLength(1);
    const [alert] = await held();
    expect(alert).toMatchObject({
      severity: 'P2',
      details: { xid: Number(rows[0].xid), session: { pid: rows[0].pid, application: 'nightly report' } },
    });
    expect([...Compile(Alert).Errors(alert)]).toEqual([]);
    expect(await savedSnapshot(bench.store, run)).toEqual(await wholeProjection(bench.store, run));
    await appendAll(bench.store, stepOf(run, 'a'));
    await sleep(1000);
    await projectAll(projector);
    expect(await savedSnapshot(bench.store, run)).toEqual(await wholeProjection(bench.store, run));
    // The shared cursor waits, though: an event of that transaction may still come to be there.
    const cursor = await bench.store.projections.loadCursor();
    expect(cursor?.xid).toBeLessThanOrEqual(Number(rows[0].xid));
    await projector.runOnce();
    expect(await held()).toHaveLength(1);
  } finally {
    await session.end();
  }
});

test('a horizon is held by a transaction under way, not by a database where nothing happens', async () => {
  let now = { era: 1, xmin: 7, xmax: 7, inFlight: [] as number[], nowMicros: 0 };
  const raised: { code: string; message: string; dedupeKey: string }[] = [];
  const projections = {
    ...bench.store.projections,
    streamSnapshot: async () => now,
    scan: async () => ({ runs: [], next: undefined }),
    horizonHolder: async () => undefined,
    raiseAlert: async (alert: (typeof raised)[number]) => raised.push(alert) > 0,
  };
  const projector = createProjector({ store: { projections } });
  const at = async (seconds: number, inFlight: number[]) => {
    now = { ...now, xmax: 8, xmin: inFlight[0] ?? 8, inFlight, nowMicros: seconds * 1_000_000 };
    await projector.runOnce();
  };
  await projector.runOnce();
  await at(60, []);
  await at(61, [7]);
  await at(66, [7]);
  expect(raised).toEqual([]);
  await at(66.1, [7]);
  await at(99, [7]);
  expect(raised).toMatchObject([{ code: 'STREAM_HORIZON_HELD', message: expect.stringMatching(/5100 ms/) }]);
  expect(raised[0]?.message).toMatch(/a session that this user may not see/);
  // Idle at 8, then transaction 8 begins: it is not blamed for the time before it.
  await at(100, []);
  now = { ...now, xmax: 9 };
  await at(200, [8]);
  await at(204, [8]);
  expect(raised).toHaveLength(1);
  await at(206, [8]);
  expect(raised).toHaveLength(2);
});

import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RunSnapshot } from '../contracts/snapshot.ts';
import {
  alertsOf,
  appendAll,
  forge,
  newRun,
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
import { readSnapshot } from './read-snapshot.ts';

let bench: ProjectorBench;
beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench?.close());

const CODE = 'PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED';

test('ES-1.1e ES-1.5c a fetch with a gap marks the run STALE, raises one alert, reads the run again and goes on', async () => {
  const run = await runningRun(bench.store);
  await appendAll(bench.store, [...stepOf(run, 'a'), ...stepOf(run, 'b')]);
  const between: (RunSnapshot | undefined)[] = [];
  const store = withFault(bench.store, {
    shows: (event, fetch) => fetch > 1 || event.runSeq !== 4,
    beforeClaim: async () => {
      between.push((await bench.store.loadSnapshot(run.runId))?.snapshot);
    },
  });
  const projector = createProjector({ store });
  await projectAll(projector);
  // What was saved before the first turn, and before the second one, which is the resync.
  expect(between).toEqual([
    undefined,
    expect.objectContaining({ lastEventSeq: 3, metadata: { inconsistent: false, stale: true } }),
  ]);
  const snapshot = await savedSnapshot(bench.store, run);
  expect(snapshot).toEqual(await wholeProjection(bench.store, run));
  expect(snapshot).toMatchObject({ lastEventSeq: 6, metadata: { stale: false } });
  const [alert, ...others] = await alertsOf(bench.store, run, CODE);
  expect(others).toEqual([]);
  expect(alert).toMatchObject({ code: CODE, severity: 'P2', runId: run.runId, details: { lastSeq: 3, nextSeq: 5 } });
  expect(alert?.message).not.toMatch(/lost|loss|corrupt|missing/i);
  expect(projector.report().gaps).toBe(1);
});

test('ES-1.1e a run stays STALE until a resync reaches the event after the gap', async () => {
  const run = await runningRun(bench.store);
  await appendAll(bench.store, [...stepOf(run, 'a'), ...stepOf(run, 'b')]);
  let visible = 5;
  const store = withFault(bench.store, {
    shows: (event, fetch) => (fetch === 1 ? event.runSeq !== 4 : event.runSeq < visible),
  });
  let clock = 0;
  const projector = createProjector({ store, pollMs: 100, clock: () => clock });
  await projector.runOnce();
  expect(await savedSnapshot(bench.store, run)).toMatchObject({ lastEventSeq: 4, metadata: { stale: true } });
  clock += 100;
  await projector.runOnce();
  expect(await savedSnapshot(bench.store, run)).toMatchObject({ lastEventSeq: 4, metadata: { stale: true } });
  expect(await readSnapshot(bench.store, run.runId)).toMatchObject({ lastEventSeq: 6, metadata: { stale: true } });
  // Event 5 is the first after the gap: with it the resync has passed what was observed.
  visible = 6;
  clock += 100;
  await projector.runOnce();
  expect(await savedSnapshot(bench.store, run)).toMatchObject({ lastEventSeq: 5, metadata: { stale: false } });
  visible = 99;
  clock += 100;
  await projector.runOnce();
  expect(await savedSnapshot(bench.store, run)).toEqual(await wholeProjection(bench.store, run));
  expect(await alertsOf(bench.store, run, CODE)).toHaveLength(1);
});

test('ES-1.1e a projector that ended right after it marked a run STALE leaves the resync to the next one', async () => {
  const run = await runningRun(bench.store);
  await appendAll(bench.store, [...stepOf(run, 'a'), ...stepOf(run, 'b')]);
  let turns = 0;
  const store = withFault(bench.store, {
    shows: (event) => event.runSeq !== 4,
    beforeClaim: async () => {
      turns += 1;
      if (turns > 1) throw new Error('killed');
    },
  });
  await createProjector({ store, onError: () => {} }).runOnce();
  expect(await savedSnapshot(bench.store, run)).toMatchObject({ lastEventSeq: 3, metadata: { stale: true } });
  await projectAll(createProjector(bench));
  expect(await savedSnapshot(bench.store, run)).toEqual(await wholeProjection(bench.store, run));
});

test('ES-1.0a a gap that stays is normal: after the resync projection goes on, and nobody is told twice', async () => {
  const run = await newRun(bench.store);
  await forge(bench.store, run, [
    { type: 'RunStarted', seq: 10, payload: {} },
    { type: 'StepStarted', step: 'a', seq: 12 },
  ]);
  const projector = createProjector(bench);
  await projectAll(projector);
  expect(await savedSnapshot(bench.store, run)).toMatchObject({
    status: 'RUNNING',
    lastEventSeq: 12,
    metadata: { inconsistent: false, stale: false },
  });
  // The resync read 1, 10 and 12, so that only the first gap was observed.
  expect((await alertsOf(bench.store, run, CODE)).map((alert) => alert.details)).toEqual([{ lastSeq: 1, nextSeq: 10 }]);
  await forge(bench.store, run, [{ type: 'StepCompleted', step: 'a' }]);
  await projectAll(projector);
  expect(await savedSnapshot(bench.store, run)).toMatchObject({ lastEventSeq: 13, steps: [{ status: 'SUCCESS' }] });
  await forge(bench.store, run, [{ type: 'RunCompleted', seq: 20 }]);
  await projectAll(projector);
  expect((await alertsOf(bench.store, run, CODE)).map((alert) => alert.details)).toEqual([
    { lastSeq: 1, nextSeq: 10 },
    { lastSeq: 13, nextSeq: 20 },
  ]);
  expect(await savedSnapshot(bench.store, run)).toMatchObject({ status: 'COMPLETED', metadata: { stale: false } });
  // From nothing: the same snapshot, and no new alerts.
  await bench.store.postgres.query({ name: 'forget', text: 'truncate runledger.snapshots, runledger.cursors' });
  await projectAll(createProjector(bench));
  expect(await savedSnapshot(bench.store, run)).toEqual(await wholeProjection(bench.store, run));
  expect(await alertsOf(bench.store, run, CODE)).toHaveLength(2);
});

test('a reader that sees a gap behind the saved snapshot reads the whole log and is not misled', async () => {
  const run = await runningRun(bench.store);
  await projectAll(createProjector(bench));
  await appendAll(bench.store, [...stepOf(run, 'a'), ...stepOf(run, 'b')]);
  let reads = 0;
  const snapshot = await readSnapshot(
    {
      loadSnapshot: (runId) => bench.store.loadSnapshot(runId),
      readEvents: async (runId, query) => {
        reads += 1;
        const events = await bench.store.readEvents(runId, query);
        return reads > 1 ? events : events.filter((event) => event.runSeq !== 4);
      },
    },
    run.runId,
  );
  expect(reads).toBe(2);
  expect(snapshot).toEqual(await wholeProjection(bench.store, run));
});

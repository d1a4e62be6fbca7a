import { afterAll, beforeAll, expect, test } from 'vitest';
import { fold } from '../kernel/evolve.ts';
import { toSnapshot } from '../kernel/to-snapshot.ts';
import { sampleEvent } from '../testing/sample-events.ts';
import {
  appendAll,
  openBench,
  type ProjectorBench,
  projectAll,
  runningRun,
  stepOf,
  wholeProjection,
} from './projector.fixture.ts';
import { createProjector } from './projector.ts';
import { readSnapshot } from './read-snapshot.ts';
import { blankState, SnapshotProjector } from './snapshot-projector.ts';

let bench: ProjectorBench;
beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench?.close());

test('a snapshot is what was saved, caught up with the events after it', async () => {
  const run = await runningRun(bench.store);
  expect(await readSnapshot(bench.store, run.runId)).toEqual(await wholeProjection(bench.store, run));
  await projectAll(createProjector(bench));
  await appendAll(bench.store, stepOf(run, 'a'));
  expect(await readSnapshot(bench.store, run.runId)).toEqual(await wholeProjection(bench.store, run));
  expect(await readSnapshot(bench.store, run.runId, { fresh: false })).toMatchObject({ lastEventSeq: 2, steps: [] });
  expect((await bench.store.loadSnapshot(run.runId))?.lastEventSeq).toBe(2);
});

test('a run can be seen as of any event', async () => {
  const run = await runningRun(bench.store);
  await appendAll(bench.store, stepOf(run, 'a'));
  await projectAll(createProjector(bench));
  await appendAll(bench.store, [...stepOf(run, 'b', 'StepFailed'), ...stepOf(run, 'c')]);
  const log = await bench.store.readEvents(run.runId);
  for (let asOf = 0; asOf <= log.length; asOf++) {
    const expected = toSnapshot(fold(blankState(run.runId), log.slice(0, asOf)));
    expect(await readSnapshot(bench.store, run.runId, { asOf })).toEqual(expected);
    expect(await readSnapshot(bench.store, run.runId, { asOf, fresh: false })).toEqual(expected);
  }
  expect(await readSnapshot(bench.store, run.runId, { asOf: 999 })).toEqual(await wholeProjection(bench.store, run));
});

test('ES-1.4b every snapshot that is read is frozen, and projection goes on from it', async () => {
  const run = await runningRun(bench.store);
  await projectAll(createProjector(bench));
  for (const options of [{}, { fresh: false }, { asOf: 1 }]) {
    const snapshot = await readSnapshot(bench.store, run.runId, options);
    expect(Object.isFrozen(snapshot)).toBe(true);
    expect(Object.isFrozen(snapshot.steps)).toBe(true);
    expect(Object.isFrozen(snapshot.metadata)).toBe(true);
  }
  const snapshot = await readSnapshot(bench.store, run.runId);
  await appendAll(bench.store, stepOf(run, 'a'));
  const next = await new SnapshotProjector().incrementalProject(snapshot, await bench.store.readEvents(run.runId));
  expect(next).toEqual(await wholeProjection(bench.store, run));
});

test('what was erased is not shown, however old the saved snapshot is', async () => {
  const run = await runningRun(bench.store);
  const error = { category: 'http', code: 'X', message: 'the secret word', retryable: false };
  await appendAll(bench.store, [
    sampleEvent(run, { eventType: 'StepStarted', stepId: 'a' }),
    sampleEvent(run, { eventType: 'StepFailed', stepId: 'a', payload: { error } }),
  ]);
  await projectAll(createProjector(bench));
  await appendAll(bench.store, stepOf(run, 'b'));
  expect(JSON.stringify(await readSnapshot(bench.store, run.runId))).toContain('the secret word');
  await bench.store.erase(run.runId, { runSeqs: [4], reason: 'asked for', emittedAt: '2026-03-01T00:00:00Z' });
  for (const asOf of [undefined, 5, 7]) {
    const snapshot = await readSnapshot(bench.store, run.runId, asOf === undefined ? {} : { asOf });
    expect(JSON.stringify(snapshot)).not.toContain('the secret word');
    expect(snapshot.failedSteps).toBe(1);
  }
});

test('long logs are read in pages', async () => {
  const run = await runningRun(bench.store);
  await appendAll(bench.store, Array.from({ length: 1100 }, (_, i) => stepOf(run, `s${i}`)).flat());
  const snapshot = await readSnapshot(bench.store, run.runId);
  expect(snapshot).toMatchObject({ lastEventSeq: 2202 });
  expect(snapshot.steps).toHaveLength(1100);
});

test('a run that does not exist and an asOf that is no sequence have a code', async () => {
  await expect(readSnapshot(bench.store, 'nobody')).rejects.toMatchObject({ code: 'RUN_NOT_FOUND' });
  const run = await runningRun(bench.store);
  for (const asOf of [-1, 1.5, Number.NaN])
    await expect(readSnapshot(bench.store, run.runId, { asOf })).rejects.toMatchObject({ code: 'USAGE' });
});

import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { NewRun } from '../store/store.ts';
import { sampleEvent } from '../testing/sample-events.ts';
import { saveEveryMs } from './project-batch.ts';
import {
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
import { createProjector, DEFAULT_POLL_MS, type Projector, type ProjectorOptions } from './projector.ts';

let bench: ProjectorBench;
beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench?.close());

const errors: unknown[] = [];
function projectorOf(options: Partial<ProjectorOptions> = {}): Projector {
  return createProjector({ store: bench.store, onError: (error) => errors.push(error), ...options });
}

async function expectProjected(run: NewRun): Promise<void> {
  expect(await savedSnapshot(bench.store, run)).toEqual(await wholeProjection(bench.store, run));
}

/** Changes what the database itself would protect. */
async function behindTheTrigger(text: string): Promise<void> {
  await bench.store.postgres.transaction(async (client) => {
    await client.query('set local session_replication_role = replica');
    await client.query(text);
  });
}

test('ES-1.5a ES-1.5d however appends and projections take turns, the saved snapshot is that of the whole log', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.constantFrom('append', 'project', 'restart'), { maxLength: 12 }), async (turns) => {
      const run = await runningRun(bench.store);
      let projector = projectorOf();
      for (const [i, turn] of turns.entries()) {
        if (turn === 'append')
          await appendAll(bench.store, stepOf(run, `s${i}`, i % 3 ? 'StepCompleted' : 'StepFailed'));
        if (turn === 'project') await projectAll(projector);
        if (turn === 'restart') projector = projectorOf();
      }
      await projectAll(projector);
      await expectProjected(run);
    }),
    { numRuns: 15 },
  );
});

test('ES-A1 RunStarted is projected with its reference and its time; the same key again moves only the watermark', async () => {
  const run = await runningRun(bench.store);
  const projector = projectorOf();
  await projectAll(projector);
  const first = await savedSnapshot(bench.store, run);
  expect(first).toMatchObject({
    status: 'RUNNING',
    engineRunRef: { provider: 'native', workflowId: run.runId, runId: run.runId },
    startedAt: '2026-02-11T10:30:00.000Z',
    lastEventSeq: 2,
  });
  const [, started] = await bench.store.readEvents(run.runId);
  await forge(bench.store, run, [{ type: 'RunStarted', payload: started?.payload }]);
  await projectAll(projector);
  expect(await savedSnapshot(bench.store, run)).toEqual({ ...first, lastEventSeq: 3 });
  expect(await bench.store.listAlerts({ runId: run.runId })).toEqual([]);
});

test('ES-1.5e a type from a newer version advances lastEventSeq and changes no state', async () => {
  const run = await runningRun(bench.store);
  const projector = projectorOf();
  await projectAll(projector);
  const before = await savedSnapshot(bench.store, run);
  await forge(bench.store, run, [{ type: 'FromTheFuture', step: 'a', payload: { to: 'Mars' } }]);
  await projectAll(projector);
  expect(await savedSnapshot(bench.store, run)).toEqual({ ...before, lastEventSeq: 3 });
});

test('ES-1.5d a projector that failed in the middle of a batch leaves nothing behind and goes on from the watermark', async () => {
  const run = await runningRun(bench.store);
  await projectAll(projectorOf());
  await appendAll(bench.store, stepOf(run, 'a'));
  let fail = true;
  const store = withFault(bench.store, {
    beforeSave: async () => {
      if (fail) throw new Error('no space left');
    },
  });
  const told: unknown[] = [];
  let clock = 0;
  const projector = projectorOf({ store, onError: (error) => told.push(error), clock: () => clock });
  await projector.runOnce();
  expect(told).toHaveLength(1);
  expect(await savedSnapshot(bench.store, run)).toMatchObject({ lastEventSeq: 2 });
  fail = false;
  clock += 1000;
  await projectAll(projector);
  await expectProjected(run);
});

test('projectors that take turns on one run go on from what the other one saved', async () => {
  const run = await runningRun(bench.store);
  const projectors = [projectorOf(), projectorOf(), projectorOf()];
  for (let i = 0; i < 9; i++) {
    await appendAll(bench.store, stepOf(run, `s${i}`));
    const projector = projectors[i % 3] as Projector;
    await projectAll(projector);
    await expectProjected(run);
  }
});

test('a projection that is gone, with what the projector remembers ahead of it, is made again', async () => {
  const run = await runningRun(bench.store);
  const projector = projectorOf();
  await projectAll(projector);
  await appendAll(bench.store, stepOf(run, 'a'));
  await projectAll(projector);
  await bench.store.postgres.query({ name: 'forget', text: 'truncate runledger.snapshots, runledger.cursors' });
  await appendAll(bench.store, stepOf(run, 'b'));
  await projectAll(projector);
  await expectProjected(run);
  expect(projector.report().events).toBeGreaterThanOrEqual(4 + 6);
});

test('a long log is read in pages, and each part is saved once', async () => {
  const run = await runningRun(bench.store);
  for (let i = 0; i < 3; i++)
    await appendAll(bench.store, Array.from({ length: 900 }, (_, n) => stepOf(run, `s${i}-${n}`)).flat());
  const projector = projectorOf();
  await projectAll(projector);
  await expectProjected(run);
  expect((await savedSnapshot(bench.store, run)).steps).toHaveLength(2700);
});

test('a run that has to be read for long is left to a batch of its own, and the others of its batch are saved', async () => {
  const long = await runningRun(bench.store);
  const short = await runningRun(bench.store);
  await appendAll(bench.store, Array.from({ length: 2500 }, (_, n) => stepOf(long, `s${n}`)).flat());
  await projectAll(projectorOf());
  await bench.store.postgres.query({ name: 'spoil', text: 'update runledger.snapshots set state = $1' }, ['{}']);
  for (const run of [long, short]) await appendAll(bench.store, stepOf(run, 'last'));
  let clock = 0;
  const marks: (number | undefined)[][] = [];
  const store = withFault(bench.store, {
    beforeClaim: async () => {
      const saved = await Promise.all([long, short].map((run) => bench.store.loadSnapshot(run.runId)));
      marks.push(saved.map((one) => one?.lastEventSeq));
    },
  });
  // Time flies: every batch is late after its first page.
  const projector = projectorOf({ store, clock: () => (clock += 10_000) });
  await projectAll(projector);
  expect(marks).toEqual([
    [5002, 2],
    [5002, 4],
  ]);
  for (const run of [long, short]) await expectProjected(run);
});

test('many runs in many pages of the stream are all found', async () => {
  const runs = await Promise.all(Array.from({ length: 60 }, () => runningRun(bench.store)));
  // More events than one page of discovery, and a run that comes back in each page.
  for (let i = 0; i < 3; i++)
    for (const run of runs)
      await appendAll(bench.store, Array.from({ length: 20 }, (_, n) => stepOf(run, `s${i}-${n}`)).flat());
  const projector = projectorOf();
  await projectAll(projector);
  for (const run of runs) await expectProjected(run);
  expect(projector.report().pending).toBe(0);
});

test('RE-1.3a projection goes on by (run, runSeq): a run that is not mentioned again is not read again', async () => {
  const projector = projectorOf();
  await projectAll(projector);
  const { events } = projector.report();
  const run = await runningRun(bench.store);
  await appendAll(bench.store, stepOf(run, 'a'));
  await projectAll(projector);
  expect(projector.report().events - events).toBe(4);
  await projectAll(projector);
  expect(projector.report().events - events).toBe(4);
});

test('a transaction that began earlier and ends later than what was projected is found when it ends', async () => {
  const slow = await newRun(bench.store);
  const quick = await newRun(bench.store);
  const projector = projectorOf();
  await projectAll(projector);
  let written: () => void = () => {};
  let release: () => void = () => {};
  const isWritten = new Promise<void>((resolve) => {
    written = resolve;
  });
  const hold = new Promise<void>((resolve) => {
    release = resolve;
  });
  const slowWriter = bench.store.postgres.transaction(async (client) => {
    await client.query(
      `insert into runledger.run_events select run_key, last_seq + 1, pg_current_xact_id()::text::bigint, clock_timestamp(), era, 1, 1, 9999,
         gen_random_uuid(), '', 'x', sha256(run_id::bytea), '', '', '', null from runledger.runs, runledger.stream_state where run_id = $1`,
      [slow.runId],
    );
    await client.query('update runledger.runs set last_seq = last_seq + 1 where run_id = $1', [slow.runId]);
    written();
    await hold;
  });
  await isWritten;
  await forge(bench.store, quick, [{ type: 'FromTheFuture' }]);
  await projectAll(projector);
  expect((await savedSnapshot(bench.store, quick)).lastEventSeq).toBe(2);
  expect((await savedSnapshot(bench.store, slow)).lastEventSeq).toBe(1);
  release();
  await slowWriter;
  await projectAll(projector);
  expect((await savedSnapshot(bench.store, slow)).lastEventSeq).toBe(2);
});

test('after a restore, events of the new era are found although their transaction ids begin low again', async () => {
  const run = await newRun(bench.store);
  const projector = projectorOf();
  await projectAll(projector);
  await bench.store.postgres.query({ name: 'next_era', text: 'update runledger.stream_state set era = era + 1' });
  const { era } = await bench.store.projections.streamSnapshot();
  await forge(bench.store, run, [{ type: 'FromTheFuture', place: { era, xid: 3 } }]);
  await projectAll(projector);
  await expectProjected(run);
  await forge(bench.store, run, [{ type: 'FromTheFuture', place: { era, xid: 3 } }]);
  // Another projector begins at the shared cursor.
  await projectAll(projectorOf());
  await expectProjected(run);
});

test('a run that cannot be projected is told, tried again alone and later, and does not keep the others back', async () => {
  const bad = await newRun(bench.store);
  const good = await newRun(bench.store);
  await forge(bench.store, bad, [{ type: 'RunStarted', rawPayload: '{broken' }]);
  const told: unknown[] = [];
  let clock = 0;
  const projector = projectorOf({ onError: (error) => told.push(error), clock: () => clock });
  await projector.runOnce();
  await expectProjected(good);
  expect(told).toHaveLength(1);
  expect(await bench.store.loadSnapshot(bad.runId)).toBeUndefined();
  expect(projector.report().pending).toBe(1);
  await projector.runOnce();
  expect(told).toHaveLength(1);
  clock += 500;
  const later = await runningRun(bench.store);
  await projector.runOnce();
  expect(told).toHaveLength(2);
  await expectProjected(later);
  // The shared cursor stays below the event that is missing, so that the next projector finds it as well.
  const other = projectorOf({ onError: (error) => told.push(error) });
  await other.runOnce();
  expect(told).toHaveLength(3);
  await behindTheTrigger(`update runledger.run_events set payload = '{}' where payload = '{broken'`);
  clock += 60_000;
  await projectAll(projector);
  await expectProjected(bad);
});

test('events that were found and are gone, as after the loss of a server, are not waited for', async () => {
  const run = await newRun(bench.store);
  await forge(bench.store, run, [{ type: 'FromTheFuture' }]);
  let lose = true;
  const store = withFault(bench.store, {
    beforeClaim: async () => {
      if (lose)
        await behindTheTrigger(
          `delete from runledger.run_events where type = 9999 and run_key = (select max(run_key) from runledger.runs)`,
        );
      if (lose)
        await behindTheTrigger(
          'update runledger.runs set last_seq = 1 where run_key = (select max(run_key) from runledger.runs)',
        );
      lose = false;
    },
  });
  await projectAll(projectorOf({ store }));
  await expectProjected(run);
});

test('a saved state of another version is folded again from the log', async () => {
  const run = await runningRun(bench.store);
  await projectAll(projectorOf());
  for (const state of ['{"version":0}', 'no json']) {
    await bench.store.postgres.query({ name: 'spoil', text: 'update runledger.snapshots set state = $1' }, [state]);
    await appendAll(bench.store, stepOf(run, `after ${state.length}`));
    await projectAll(projectorOf());
    await expectProjected(run);
  }
});

test('an erased payload disappears from the saved state and snapshot', async () => {
  const run = await runningRun(bench.store);
  const secret = { category: 'http', code: 'X', message: 'the secret word', retryable: false };
  await appendAll(bench.store, [
    sampleEvent(run, { eventType: 'StepStarted', stepId: 'a' }),
    sampleEvent(run, { eventType: 'StepFailed', stepId: 'a', payload: { error: secret } }),
  ]);
  const projector = projectorOf();
  await projectAll(projector);
  expect((await bench.store.loadSnapshot(run.runId))?.state).toContain('the secret word');
  await bench.store.erase(run.runId, { runSeqs: [4], reason: 'asked for', emittedAt: '2026-03-01T00:00:00Z' });
  await appendAll(bench.store, stepOf(run, 'b'));
  await projectAll(projector);
  const saved = await bench.store.loadSnapshot(run.runId);
  expect(JSON.stringify(saved)).not.toContain('the secret word');
  expect(saved?.lastEventSeq).toBe(7);
  await expectProjected(run);
});

test('a large state is saved less often than a small one, and its events wait for their turn', async () => {
  const run = await runningRun(bench.store);
  let ageMs = 0;
  const store = withFault(bench.store, { stand: (stand) => ({ ...stand, stateBytes: 400_000, ageMs }) });
  let clock = 0;
  const projector = projectorOf({ store, clock: () => clock });
  expect((await projector.runOnce()).pending).toBeGreaterThan(0);
  expect(await bench.store.loadSnapshot(run.runId)).toBeUndefined();
  clock += saveEveryMs(400_000);
  ageMs = clock;
  expect((await projector.runOnce()).pending).toBe(0);
  await expectProjected(run);
});

test('ES-1.4d what the projector waits of its own accord stays within a second, for runs of any size', () => {
  expect(saveEveryMs(0)).toBe(0);
  expect(saveEveryMs(10_000)).toBeLessThan(saveEveryMs(1_000_000));
  expect(DEFAULT_POLL_MS + saveEveryMs(Number.MAX_SAFE_INTEGER)).toBeLessThan(1000);
});

test('ES-1.4d a started projector follows the log, measures how far it is behind, and stops cleanly', async () => {
  const projector = projectorOf();
  projector.start();
  projector.start();
  const runs = await Promise.all(Array.from({ length: 10 }, () => runningRun(bench.store)));
  for (let i = 0; i < 10; i++) {
    for (const run of runs) await appendAll(bench.store, stepOf(run, `s${i}`));
    await sleep(20);
  }
  await expect
    .poll(async () => (await savedSnapshot(bench.store, runs[9]!)).lastEventSeq, { timeout: 20_000 })
    .toBe(22);
  for (const run of runs) await expectProjected(run);
  await expect.poll(() => projector.lag()).toBe(0);
  expect(projector.report().worstLagMs).toBeGreaterThan(0);
  // The promise of the contract; lag is usually a tenth of this.
  console.info(`worst lag of a started projector: ${Math.round(projector.report().worstLagMs)} ms`);
  await projector.stop();
  await projector.stop();
  await appendAll(bench.store, stepOf(runs[0]!, 'after'));
  await sleep(2 * DEFAULT_POLL_MS);
  expect((await savedSnapshot(bench.store, runs[0]!)).lastEventSeq).toBe(22);
  projector.start();
  await expect
    .poll(async () => (await savedSnapshot(bench.store, runs[0]!)).lastEventSeq, { timeout: 20_000 })
    .toBe(24);
  await projector.stop();
});

test('options that make no sense are refused', () => {
  for (const options of [
    { pollMs: 0 },
    { lagAlertMs: -1 },
    { concurrency: Number.NaN },
    { horizonAlertMs: Number.POSITIVE_INFINITY },
  ])
    expect(() => projectorOf(options)).toThrowError(expect.objectContaining({ code: 'USAGE' }));
});

test('nothing went wrong on the way', () => {
  expect(errors).toEqual([]);
});

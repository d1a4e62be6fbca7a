import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { cleanServer, temporaryFolder } from '../store/embedded/embedded.fixture.ts';
import { openEmbedded } from '../store/embedded/open-embedded.ts';
import { readPidFile } from '../store/embedded/postmaster-pid.ts';
import { PostgresStore } from '../store/postgres-store.ts';
import { sampleError } from '../testing/sample-events.ts';
import { alertsOf, appendAll, forge, runningRun, savedSnapshot, stepOf, wholeProjection } from './projector.fixture.ts';
import { createProjector } from './projector.ts';

test('ES-1.5d a projector catches up after the database server was killed, again and again', async () => {
  const folder = await temporaryFolder();
  cleanServer(join(folder, 'pg'));
  const server = await openEmbedded({ folder });
  const { host, port, user, database } = server.config;
  const store = await PostgresStore.open({
    ...{ host, port, user, database },
    migrate: true,
    revive: () => server.ensureRunning(),
  });
  const errors: unknown[] = [];
  const projector = createProjector({ store, pollMs: 10, onError: (error) => errors.push(error) });
  onTestFinished(async () => {
    await projector.stop();
    await store.close();
    await server.close();
  });
  const runs = await Promise.all(Array.from({ length: 10 }, () => runningRun(store)));
  for (const run of runs)
    await forge(store, run, [{ type: 'StepFailed', step: 'nobody', payload: { error: sampleError } }]);
  projector.start();
  const rounds = 4;
  for (let round = 0; round < rounds; round++) {
    const appends = runs.map(async (run, i) => {
      await sleep(i * 10);
      await appendAll(store, stepOf(run, `s${round}`));
    });
    await sleep(round * 30);
    // The file of a server that was killed stays until the next one starts.
    await server.ensureRunning();
    process.kill((await readPidFile(server.dataDir))!.pid!, 'SIGKILL');
    await Promise.all(appends);
  }
  await expect
    .poll(
      async () => {
        const saved = await Promise.all(runs.map((run) => store.loadSnapshot(run.runId)));
        return saved.map((one) => one?.lastEventSeq);
      },
      { timeout: 60_000 },
    )
    .toEqual(runs.map(() => 3 + 2 * rounds));
  for (const run of runs) {
    expect(await savedSnapshot(store, run)).toEqual(await wholeProjection(store, run));
    expect(await alertsOf(store, run, 'INVALID_TRANSITION')).toHaveLength(1);
  }
  expect(errors).toEqual([]);
}, 180_000);

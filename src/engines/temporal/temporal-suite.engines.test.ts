import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { engineSuite } from '../../testing/engine.suite.ts';
import { folderArtifacts } from '../native/folder-artifacts.fixture.ts';
import { spawnTemporalWorker } from './spawn-temporal-worker.fixture.ts';
import { openTemporalBench } from './temporal.fixture.ts';

engineSuite('Temporal, one worker', {
  provider: 'temporal',
  async open() {
    const bench = await openTemporalBench();
    return { engine: bench.runtime.engine, store: bench.store, plans: bench.runtime.plans, close: () => bench.close() };
  },
});

engineSuite('Temporal, two worker processes and executions of a few events', {
  provider: 'temporal',
  async open() {
    const folder = mkdtempSync(join(tmpdir(), 'runledger-artifacts-'));
    const temporal = { workflow: { maxEvents: 60, handOverMs: 50 } };
    const bench = await openTemporalBench({ artifacts: folderArtifacts(folder), worker: false, temporal });
    const workers = await Promise.all(
      [1, 2].map(() => spawnTemporalWorker(bench.url, folder, { temporal: bench.temporal })),
    );
    return {
      engine: bench.runtime.engine,
      store: bench.store,
      plans: bench.runtime.plans,
      async close() {
        await Promise.all(workers.map((worker) => worker.stop()));
        await bench.close();
        rmSync(folder, { recursive: true, force: true });
      },
    };
  },
});

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { engineSuite } from '../../testing/engine.suite.ts';
import { engineTools } from '../../testing/engine-tools.ts';
import { noopTool } from '../../tools/noop/noop-tool.ts';
import { folderArtifacts } from './folder-artifacts.fixture.ts';
import { openEngine } from './native.fixture.ts';
import { spawnWorker } from './spawn-worker.fixture.ts';

engineSuite('native engine, embedded in one process', {
  provider: 'native',
  async open() {
    const bench = await openEngine({ tools: [noopTool(), ...engineTools()] });
    return { engine: bench.runtime.engine, store: bench.store, plans: bench.runtime.plans, close: () => bench.close() };
  },
});

engineSuite('native engine, three worker processes', {
  provider: 'native',
  async open() {
    const folder = mkdtempSync(join(tmpdir(), 'runledger-artifacts-'));
    const bench = await openEngine({ artifacts: folderArtifacts(folder), worker: false });
    const workers = await Promise.all([1, 2, 3].map(() => spawnWorker(bench.url, folder)));
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

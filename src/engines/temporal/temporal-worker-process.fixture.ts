// A worker in a process of its own: node --import tsx temporal-worker-process.fixture.ts URL FOLDER JSON
import { armFaultPoints } from '../../lib/fault-point.ts';
import { createTemporalRuntime } from '../../runtime/create-temporal-runtime.ts';
import { PostgresStore } from '../../store/postgres-store.ts';
import { engineTools } from '../../testing/engine-tools.ts';
import { noopTool } from '../../tools/noop/noop-tool.ts';
import { folderArtifacts } from '../native/folder-artifacts.fixture.ts';
import type { TemporalOptions } from './options.ts';

export interface TemporalWorkerProcessOptions {
  readonly temporal: TemporalOptions;
  readonly leaseMs?: number;
  readonly concurrency?: number;
  /** The process kills itself when this point is reached so often. */
  readonly kill?: { readonly point: string; readonly at: number };
}

const [url, folder, json] = process.argv.slice(2) as [string, string, string];
const options = JSON.parse(json) as TemporalWorkerProcessOptions;
let reached = 0;
if (options.kill) {
  armFaultPoints((name) => {
    if (options.kill?.point !== name) return;
    reached += 1;
    if (reached === options.kill.at) process.kill(process.pid, 'SIGKILL');
  });
}
const store = await PostgresStore.open({ url });
const runtime = await createTemporalRuntime({
  store,
  tools: [noopTool(), ...engineTools()],
  artifacts: folderArtifacts(folder),
  temporal: options.temporal,
  ...(options.leaseMs === undefined ? {} : { leaseMs: options.leaseMs }),
  worker: { concurrency: options.concurrency ?? 8, drainMs: 2000 },
});
process.on('SIGTERM', () => {
  void runtime
    .close()
    .then(() => store.close())
    .then(() => process.exit(0));
});
process.stdout.write('ready\n');

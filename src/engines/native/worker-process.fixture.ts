// A worker in a process of its own: node --import tsx worker-process.fixture.ts URL FOLDER [JSON options]
import { appendFileSync } from 'node:fs';
import { armFaultPoints } from '../../lib/fault-point.ts';
import { createNativeRuntime } from '../../runtime/create-native-runtime.ts';
import { PostgresStore } from '../../store/postgres-store.ts';
import { engineTools } from '../../testing/engine-tools.ts';
import { noopTool } from '../../tools/noop/noop-tool.ts';
import { folderArtifacts } from './folder-artifacts.fixture.ts';

interface WorkerOptions {
  readonly leaseMs?: number;
  readonly concurrency?: number;
  readonly runAhead?: boolean;
  /** The process kills itself when this point is reached so often. */
  readonly kill?: { readonly point: string; readonly at: number };
  /** Every point that is reached is written there. */
  readonly trace?: string;
}

const [url, folder, json] = process.argv.slice(2) as [string, string, string | undefined];
const options = JSON.parse(json ?? '{}') as WorkerOptions;
let reached = 0;
if (options.kill || options.trace) {
  armFaultPoints((name) => {
    if (options.trace) appendFileSync(options.trace, `${name}\n`);
    if (options.kill?.point !== name) return;
    reached += 1;
    if (reached === options.kill.at) process.kill(process.pid, 'SIGKILL');
  });
}
const store = await PostgresStore.open({ url });
const runtime = createNativeRuntime({
  store,
  tools: [noopTool(), ...engineTools()],
  artifacts: folderArtifacts(folder),
  ...(options.leaseMs === undefined ? {} : { leaseMs: options.leaseMs }),
  ...(options.runAhead === undefined ? {} : { runAhead: options.runAhead }),
  worker: {
    concurrency: options.concurrency ?? 8,
    pollMs: 100,
    onError: (error, unit) => console.error(unit, error),
  },
});
process.on('SIGTERM', () => {
  void runtime
    .close()
    .then(() => store.close())
    .then(() => process.exit(0));
});
process.stdout.write('ready\n');

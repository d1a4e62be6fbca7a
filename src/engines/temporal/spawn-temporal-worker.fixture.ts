import { fileURLToPath } from 'node:url';
import { spawnWorker, type WorkerProcess } from '../native/spawn-worker.fixture.ts';
import type { TemporalWorkerProcessOptions } from './temporal-worker-process.fixture.ts';

const SCRIPT = fileURLToPath(new URL('./temporal-worker-process.fixture.ts', import.meta.url));

/** Starts a worker of Temporal in a process of its own and waits until it polls. */
export function spawnTemporalWorker(
  url: string,
  folder: string,
  options: TemporalWorkerProcessOptions,
): Promise<WorkerProcess> {
  return spawnWorker(url, folder, options, SCRIPT);
}

import { openEngine } from '../../src/engines/native/native.fixture.ts';
import { createNativeRuntime } from '../../src/runtime/create-native-runtime.ts';
import { memoryArtifacts } from '../../src/tools/call-context.fixture.ts';
import type { Tool } from '../../src/tools/tool.ts';
import type { Contestant } from './run-programs.fixture.ts';

export interface ContestantOptions {
  readonly folder: string;
  readonly tools: () => Tool[];
  readonly runAhead?: boolean;
}

/** One process; running ahead unless told otherwise. */
export async function oneNativeWorker({ folder, tools, ...options }: ContestantOptions): Promise<Contestant> {
  const artifacts = memoryArtifacts();
  const bench = await openEngine({ tools: tools(), artifacts, ...options });
  const { engine, plans } = bench.runtime;
  return { provider: 'native', engine, store: bench.store, plans, artifacts, folder, close: () => bench.close() };
}

/** Workers that take few units each, so that the branches of a run are spread over them. */
export async function severalNativeWorkers({ folder, tools }: ContestantOptions): Promise<Contestant> {
  const artifacts = memoryArtifacts();
  const bench = await openEngine({ tools: tools(), artifacts, worker: false });
  const { store } = bench;
  const workers = [1, 2, 3].map(() =>
    createNativeRuntime({ store, artifacts, tools: tools(), worker: { concurrency: 2, pollMs: 50 } }),
  );
  const { engine, plans } = bench.runtime;
  const close = async (): Promise<void> => {
    await Promise.all(workers.map((worker) => worker.close()));
    await bench.close();
  };
  return { provider: 'native', engine, store, plans, artifacts, folder, close };
}

import { randomUUID } from 'node:crypto';
import { inject } from 'vitest';
import { createTestDatabase } from '../../../test/setup/database.ts';
import { createTemporalRuntime, type TemporalRuntimeOptions } from '../../runtime/create-temporal-runtime.ts';
import { PostgresStore } from '../../store/postgres-store.ts';
import { ENGINE_TOOL_FORMS, engineTools } from '../../testing/engine-tools.ts';
import { memoryArtifacts } from '../../tools/call-context.fixture.ts';
import { noopTool } from '../../tools/noop/noop-tool.ts';
import { type TestBench, testBench } from '../test-bench.fixture.ts';
import type { TemporalOptions } from './options.ts';

export interface TemporalBench extends TestBench {
  readonly temporal: TemporalOptions & { readonly address: string; readonly namespace: string };
}

/** The engine on the server of the engine tests, with a worker in this process unless told otherwise. */
export async function openTemporalBench(
  options: Partial<Omit<TemporalRuntimeOptions, 'store'>> & { url?: string } = {},
): Promise<TemporalBench> {
  const database = options.url === undefined ? await createTestDatabase() : undefined;
  const url = options.url ?? database!.url;
  const store = await PostgresStore.open({ url });
  const artifacts = options.artifacts ?? memoryArtifacts();
  // Files share the server: each has queues of its own.
  const temporal = { ...inject('temporal'), taskQueue: `test-${randomUUID()}`, ...options.temporal };
  const runtime = await createTemporalRuntime({
    tools: [noopTool(), ...engineTools()],
    onError: (error, what) => console.error(what, error),
    ...options,
    temporal,
    artifacts,
    store,
  });
  const forms = ENGINE_TOOL_FORMS;
  return { ...testBench({ url, store, runtime, artifacts, database, targetAdapter: 'temporal', forms }), temporal };
}

import { createTestDatabase } from '../../../test/setup/database.ts';
import {
  createNativeRuntime,
  type NativeRuntime,
  type NativeRuntimeOptions,
} from '../../runtime/create-native-runtime.ts';
import { PostgresStore } from '../../store/postgres-store.ts';
import { memoryArtifacts } from '../../tools/call-context.fixture.ts';
import { noopTool } from '../../tools/noop/noop-tool.ts';
import { type TestBench, testBench } from '../test-bench.fixture.ts';

export type EngineBench = TestBench<NativeRuntime>;

export async function openEngine(
  options: Partial<Omit<NativeRuntimeOptions, 'store'>> & { url?: string } = {},
): Promise<EngineBench> {
  const database = options.url === undefined ? await createTestDatabase() : undefined;
  const url = options.url ?? database!.url;
  const store = await PostgresStore.open({ url });
  const artifacts = options.artifacts ?? memoryArtifacts();
  const runtime = createNativeRuntime({
    tools: [noopTool()],
    ...options,
    artifacts,
    store,
    ...(options.worker === false
      ? {}
      : { worker: { onError: (error, unit) => console.error(unit, error), ...options.worker } }),
  });
  return testBench({ url, store, runtime, artifacts, database, targetAdapter: 'native' });
}

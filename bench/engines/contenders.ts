import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { bundleWorkflowCode, DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import { compileSync } from '../../src/compiler/compile.ts';
import type { EngineName } from '../../src/contracts/values.ts';
import { folderArtifacts } from '../../src/engines/native/folder-artifacts.fixture.ts';
import { createNativeRuntime } from '../../src/runtime/create-native-runtime.ts';
import { createTemporalRuntime } from '../../src/runtime/create-temporal-runtime.ts';
import type { EngineRuntime } from '../../src/runtime/engine-parts.ts';
import { PostgresStore } from '../../src/store/postgres-store.ts';
import { noopTool } from '../../src/tools/noop/noop-tool.ts';

/** The same work for everybody: a playbook, or as many activities of a workflow. */
export interface Shape {
  readonly title: string;
  readonly playbook: string;
  /** Steps or iterations of one run, and how many of them run at a time. */
  readonly count: number;
  readonly lanes: number;
  readonly runsAtOnce: number;
}

export interface EngineContender {
  readonly name: string;
  /** One run, from the call that starts it to its end. */
  run(shape: Shape): Promise<void>;
  close(): Promise<void>;
}

export interface Place {
  readonly target: { host: string; port: number; user: string; database: string };
  readonly folder: string;
  readonly temporal: { readonly address: string; readonly namespace: string };
}

const SCOPE = { tenantId: 'acme', projectId: 'bench', environmentId: 'bench' };
const CONCURRENCY = 64;

/** Starts a run of a playbook, which is compiled once. */
function starter(runtime: EngineRuntime, engine: EngineName): (shape: Shape, runId: string) => Promise<string> {
  const kept = new Map<string, ReturnType<EngineRuntime['plans']['keep']>>();
  return async ({ title, playbook }, runId) => {
    if (!kept.has(title)) {
      const compiled = compileSync({ text: playbook, file: 'bench.yaml' });
      if (!compiled.ok) throw new Error(JSON.stringify(compiled.problems));
      kept.set(title, runtime.plans.keep(compiled));
    }
    const planRef = await kept.get(title)!;
    return (await runtime.engine.startRun(planRef, { ...SCOPE, runId, targetAdapter: engine })).workflowId;
  };
}

export async function openNative({ target, folder }: Place): Promise<EngineContender> {
  const store = await PostgresStore.open({ ...target, migrate: true });
  const waiting = new Map<string, () => void>();
  const runtime = createNativeRuntime({
    store,
    tools: [noopTool()],
    artifacts: folderArtifacts(folder),
    worker: { concurrency: CONCURRENCY },
    onEnd: (runId) => waiting.get(runId)?.(),
  });
  const start = starter(runtime, 'native');
  return {
    name: 'native',
    async run(shape) {
      const runId = randomUUID();
      const ended = new Promise<void>((resolve) => waiting.set(runId, resolve));
      await start(shape, runId);
      await ended;
      waiting.delete(runId);
    },
    async close() {
      await runtime.close();
      await store.close();
    },
  };
}

/** How long the store took, by verb. */
export type StoreTimes = Map<string, { calls: number; millis: number }>;

/** Temporal with our adapter. The end is what the workflow says, as it is for the one written by hand. */
export async function openAdapter(place: Place, times: StoreTimes): Promise<EngineContender> {
  const store = await PostgresStore.open({ ...place.target, migrate: true });
  const runtime = await createTemporalRuntime({
    store: timed(store, times),
    tools: [noopTool()],
    artifacts: folderArtifacts(place.folder),
    temporal: { ...place.temporal, taskQueue: 'bench-adapter' },
    worker: { concurrency: CONCURRENCY },
    onError: (error, what) => console.error(what, error),
  });
  const connection = await Connection.connect({ address: place.temporal.address });
  const client = new Client({ connection, namespace: place.temporal.namespace });
  const start = starter(runtime, 'temporal');
  return {
    name: 'temporal, adapter',
    async run(shape) {
      await client.workflow.getHandle(await start(shape, randomUUID())).result();
    },
    async close() {
      await runtime.close();
      await store.close();
      await connection.close();
    },
  };
}

export async function openByHand({ temporal }: Place): Promise<EngineContender> {
  Runtime.install({ shutdownSignals: [], logger: new DefaultLogger('ERROR') });
  const connection = await Connection.connect({ address: temporal.address });
  const native = await NativeConnection.connect({ address: temporal.address });
  const client = new Client({ connection, namespace: temporal.namespace });
  const taskQueue = 'bench-by-hand';
  const worker = await Worker.create({
    connection: native,
    namespace: temporal.namespace,
    taskQueue,
    workflowBundle: await bundleWorkflowCode({
      workflowsPath: fileURLToPath(new URL('./no-op-workflow.ts', import.meta.url)),
      logger: new DefaultLogger('ERROR'),
    }),
    activities: { noop: async (n: number) => n },
    maxConcurrentActivityTaskExecutions: CONCURRENCY,
  });
  const running = worker.run();
  return {
    name: 'temporal, by hand',
    async run({ count, lanes }) {
      await client.workflow.execute('noOps', { taskQueue, workflowId: randomUUID(), args: [count, lanes] });
    },
    async close() {
      worker.shutdown();
      await running;
      await native.close();
      await connection.close();
    },
  };
}

/** The store, with a clock on every verb that an engine asks it for. */
function timed(store: PostgresStore, times: StoreTimes): PostgresStore {
  const clocked = <T extends object>(target: T, rest: (name: string | symbol) => unknown = () => undefined): T =>
    new Proxy(target, {
      get(_target, name) {
        const value: unknown = rest(name) ?? Reflect.get(target, name, target);
        if (typeof value !== 'function') return value;
        return (...given: unknown[]) => {
          const from = performance.now();
          const answer: unknown = value.apply(target, given);
          if (!(answer instanceof Promise)) return answer;
          return answer.finally(() => {
            const sum = times.get(String(name)) ?? { calls: 0, millis: 0 };
            times.set(String(name), { calls: sum.calls + 1, millis: sum.millis + performance.now() - from });
          });
        };
      },
    });
  const work = clocked(store.work);
  return clocked(store, (name) => (name === 'work' ? work : undefined));
}

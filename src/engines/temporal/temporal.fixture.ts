import { randomUUID } from 'node:crypto';
import { inject } from 'vitest';
import { createTestDatabase } from '../../../test/setup/database.ts';
import { compiled } from '../../compiler/compile.fixture.ts';
import type { CompileOptions, ResolveSync } from '../../compiler/compile.ts';
import type { LedgerRecord } from '../../contracts/envelope.ts';
import { isTerminal } from '../../contracts/states.ts';
import type { EngineRunRef } from '../../contracts/values.ts';
import { createTemporalRuntime, type TemporalRuntimeOptions } from '../../runtime/create-temporal-runtime.ts';
import type { EngineRuntime } from '../../runtime/engine-parts.ts';
import { PostgresStore } from '../../store/postgres-store.ts';
import { ENGINE_TOOL_FORMS, engineTools } from '../../testing/engine-tools.ts';
import { memoryArtifacts } from '../../tools/call-context.fixture.ts';
import { noopTool } from '../../tools/noop/noop-tool.ts';
import type { StartOptions } from '../engine.ts';
import { checkedLog, types } from '../native/native.fixture.ts';
import type { TemporalOptions } from './options.ts';

interface CompileWith {
  readonly resolve?: ResolveSync;
  readonly tools?: NonNullable<CompileOptions['tools']>;
}

export interface TemporalBench {
  readonly url: string;
  readonly store: PostgresStore;
  readonly runtime: EngineRuntime;
  readonly temporal: TemporalOptions & { readonly address: string; readonly namespace: string };
  /** Compiles a playbook, keeps its plans and starts a run. */
  start(text: string, options?: StartOptions & CompileWith): Promise<EngineRunRef>;
  /** The log of the run once it has ended. */
  ended(ref: EngineRunRef): Promise<LedgerRecord[]>;
  run(text: string, options?: StartOptions & CompileWith): Promise<LedgerRecord[]>;
  close(): Promise<void>;
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
  const bench: TemporalBench = {
    url,
    store,
    runtime,
    temporal,
    async start(text, start = {}) {
      const { resolve, tools = ENGINE_TOOL_FORMS, ...rest } = start;
      const plan = compiled(text, { ...(resolve ? { resolve } : {}), tools });
      for (const child of plan.children.values()) await runtime.plans.keep(child);
      const planRef = await runtime.plans.keep(plan);
      const scope = { tenantId: 'acme', projectId: 'main', environmentId: 'test' };
      return runtime.engine.startRun(planRef, { ...scope, runId: randomUUID(), targetAdapter: 'temporal' }, rest);
    },
    async ended(ref) {
      for (const until = Date.now() + 100_000; ; ) {
        const run = await store.findRun(ref.runId);
        if (run?.status && isTerminal(run.status)) break;
        if (Date.now() > until) {
          const events = await store.readEvents(ref.runId);
          const work = await store.work.list(ref.runId);
          throw new Error(`the run has not ended: ${JSON.stringify(work)} ${types(events).join(' ')}`);
        }
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      return checkedLog(store, ref.runId, artifacts);
    },
    async run(text, start) {
      return bench.ended(await bench.start(text, start));
    },
    async close() {
      await runtime.close();
      await store.close();
      await database?.drop();
    },
  };
  return bench;
}

import { AppError } from '../contracts/errors.ts';
import { LedgerEngine, type LedgerEnginePorts } from '../engines/ledger-engine.ts';
import { nativePlacement } from '../engines/native/native-placement.ts';
import { NativeWorker, type NativeWorkerOptions } from '../engines/native/native-worker.ts';
import { type PlanLocation, PlanSource } from '../engines/plan-ref.ts';
import { RunViews } from '../engines/units/run-views.ts';
import { workerName } from '../engines/units/worker-name.ts';
import type { PostgresStore } from '../store/postgres-store.ts';
import { createToolRegistry } from '../tools/registry.ts';
import type { ArtifactStore, Tool } from '../tools/tool.ts';
import { type LogLine, NO_POLICY, type PolicyPort, type SecretsProvider } from '../worker/ports.ts';
import { TaskLineWriter } from '../worker/task-line-writer.ts';
import { WriteBudget, type WriteBudgetOptions } from '../worker/write-budget.ts';

export interface NativeRuntimeOptions {
  readonly store: PostgresStore;
  readonly tools: readonly Tool[];
  readonly artifacts: ArtifactStore;
  readonly secrets?: SecretsProvider;
  readonly policy?: PolicyPort;
  readonly planLocations?: readonly PlanLocation[];
  readonly leaseMs?: number;
  readonly stateStore?: WriteBudgetOptions;
  /** How long steps in flight have after a cancellation. */
  readonly cancelGraceMs?: number;
  /** False: this process starts runs and signals them, but takes no work. */
  readonly worker?: NativeWorkerOptions | false;
  /** Told what tasks print; the store keeps it besides. */
  readonly log?: (line: LogLine) => void;
  /** A run that this process worked on has ended. */
  readonly onEnd?: (runId: string) => void;
  /** Steps that only compute or read do not wait for the commit of the step before them. */
  readonly runAhead?: boolean;
}

export interface NativeRuntime {
  readonly engine: LedgerEngine;
  readonly plans: PlanSource;
  readonly worker: NativeWorker | undefined;
  /** Lets units finish for as long as `drainMs` says, hands back the rest, and lets go of the tools. */
  close(drainMs?: number): Promise<void>;
}

/** The native engine and its worker in one process. Any number of these share one database. */
export function createNativeRuntime(options: NativeRuntimeOptions): NativeRuntime {
  const { store, artifacts } = options;
  const { work, workSignals: signals } = store;
  const plans = new PlanSource({ store, work, ...(options.planLocations ? { allow: options.planLocations } : {}) });
  const views = new RunViews(store, plans);
  const tools = createToolRegistry(options.tools);
  let worker: NativeWorker | undefined;
  const ports: LedgerEnginePorts = {
    store,
    work,
    signals,
    artifacts,
    plans,
    views,
    owner: workerName(),
    leaseMs: options.leaseMs ?? 30_000,
    graceMs: options.cancelGraceMs ?? 30_000,
    refresh: (view) => views.refresh(view),
    dueAt: (millis) => worker?.lookAt(millis),
    ended: (view) => {
      views.forget(view.run.runId);
      options.onEnd?.(view.run.runId);
      const { parentRunId, parentEntity } = view.state.run;
      if (parentRunId === undefined || parentEntity === undefined) return;
      // Lost in a crash, the parent looks by itself before long.
      work
        .wake(parentRunId, `w:${parentEntity}`)
        .then(() => {
          signals.work();
          worker?.claim();
        })
        .catch(() => {});
    },
  };
  const engine = new LedgerEngine(
    ports,
    nativePlacement(() => worker),
  );
  const lines = new TaskLineWriter(store, ports.owner);
  if (options.worker !== false) {
    worker = new NativeWorker(
      {
        ...ports,
        runner: {
          tools,
          artifacts,
          secrets: options.secrets ?? NO_SECRETS,
          policy: options.policy ?? NO_POLICY,
          log: (line) => {
            lines.write(line);
            options.log?.(line);
          },
        },
        runAhead: options.runAhead ?? true,
        budget: new WriteBudget(options.stateStore),
        startChild: (view, wait) => engine.startChild(view, wait),
        relaySignal: (runId, type, id) => engine.relaySignal(runId, type, id),
      },
      options.worker ?? {},
    );
    worker.start();
  }
  return {
    engine,
    plans,
    worker,
    async close(drainMs) {
      await worker?.stop(drainMs);
      await lines.flush();
      await tools.close();
    },
  };
}

const NO_SECRETS: SecretsProvider = {
  resolve: async (name) => {
    throw new AppError('SECRET_NOT_FOUND', `No secrets provider is configured, so '${name}' cannot be resolved.`);
  },
};

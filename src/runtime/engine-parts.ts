import { AppError } from '../contracts/errors.ts';
import type { LedgerEngine } from '../engines/ledger-engine.ts';
import { type PlanLocation, PlanSource } from '../engines/plan-ref.ts';
import { RunViews } from '../engines/units/run-views.ts';
import { workerName } from '../engines/units/worker-name.ts';
import type { AddressPolicy } from '../lib/net-guard.ts';
import type { PostgresStore } from '../store/postgres-store.ts';
import { createToolRegistry } from '../tools/registry.ts';
import type { ArtifactStore, Tool } from '../tools/tool.ts';
import { OAuthTokens } from '../worker/oauth-tokens.ts';
import { type LogLine, NO_POLICY, type PolicyPort, type RunnerPorts, type SecretsProvider } from '../worker/ports.ts';
import { TaskLineWriter } from '../worker/task-line-writer.ts';
import { WriteBudget, type WriteBudgetOptions } from '../worker/write-budget.ts';

/** What every engine is made of, whoever schedules. */
export interface EngineOptions {
  readonly store: PostgresStore;
  readonly tools: readonly Tool[];
  readonly artifacts: ArtifactStore;
  readonly secrets?: SecretsProvider;
  readonly policy?: PolicyPort;
  readonly planLocations?: readonly PlanLocation[];
  /** Where the runner itself may fetch scripts and tokens from. */
  readonly addresses?: Partial<AddressPolicy> | undefined;
  /** Folders from which scripts are read. */
  readonly scriptFolders?: readonly string[];
  readonly leaseMs?: number;
  readonly stateStore?: WriteBudgetOptions;
  /** How long steps in flight have after a cancellation. */
  readonly cancelGraceMs?: number;
  /** Told what tasks print; the store keeps it besides. */
  readonly log?: (line: LogLine) => void;
}

/** An engine that is open, with a worker in this process where one was asked for. */
export interface EngineRuntime {
  readonly engine: LedgerEngine;
  readonly plans: PlanSource;
  readonly worker: { readonly owner: string } | undefined;
  /** Lets units finish for as long as `drainMs` says, hands back the rest, and lets go of the tools. */
  close(drainMs?: number): Promise<void>;
}

export function engineParts(options: EngineOptions) {
  const { store, artifacts } = options;
  const { work, workSignals: signals } = store;
  const plans = new PlanSource({ store, work, ...(options.planLocations ? { allow: options.planLocations } : {}) });
  const views = new RunViews(store, plans);
  const tools = createToolRegistry(options.tools);
  const owner = workerName();
  const lines = new TaskLineWriter(store, owner);
  const runner: RunnerPorts = {
    tools,
    artifacts,
    secrets: options.secrets ?? NO_SECRETS,
    policy: options.policy ?? NO_POLICY,
    tokens: new OAuthTokens(options.addresses),
    scripts: { folders: options.scriptFolders ?? [], addresses: options.addresses },
    log: (line) => {
      lines.write(line);
      options.log?.(line);
    },
  };
  return {
    ports: {
      store,
      work,
      signals,
      artifacts,
      plans,
      views,
      owner,
      leaseMs: options.leaseMs ?? 30_000,
      graceMs: options.cancelGraceMs ?? 30_000,
      refresh: (view: Parameters<RunViews['refresh']>[0]) => views.refresh(view),
    },
    runner,
    budget: new WriteBudget(options.stateStore),
    /** Call it when no unit runs any more. */
    async close(): Promise<void> {
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

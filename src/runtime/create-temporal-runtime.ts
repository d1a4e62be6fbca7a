import { AppError } from '../contracts/errors.ts';
import type { LedgerEnginePorts } from '../engines/ledger-engine.ts';
import type { TemporalOptions } from '../engines/temporal/options.ts';
import type { TemporalWorkerOptions } from '../engines/temporal/temporal-worker.ts';
import { type EngineOptions, type EngineRuntime, engineParts } from './engine-parts.ts';

export interface TemporalRuntimeOptions extends EngineOptions {
  readonly temporal?: TemporalOptions;
  /** False: this process starts runs and signals them, but takes no work. */
  readonly worker?: TemporalWorkerOptions | false;
  readonly onError?: (error: unknown, what: string) => void;
}

const PACKAGES = ['client', 'worker', 'workflow', 'activity', 'common'].map((name) => `@temporalio/${name}`);

/** The engine on Temporal and, where it is asked for, a worker in this process. Any number of these share a database. */
export async function createTemporalRuntime(options: TemporalRuntimeOptions): Promise<EngineRuntime> {
  const { openTemporal } = await loadAdapter();
  const parts = engineParts(options);
  const ports: LedgerEnginePorts = {
    ...parts.ports,
    // Timers are the workflow's, and the workflow is told of an end by whoever decided it.
    dueAt: () => {},
    ended: ({ run }) => parts.ports.views.forget(run.runId),
  };
  const { worker: own, onError } = options;
  const opened = await openTemporal({
    temporal: options.temporal ?? {},
    ports,
    ...(own === false ? {} : { work: { runner: parts.runner, budget: parts.budget, options: own ?? {} } }),
    ...(onError ? { onError } : {}),
  }).catch(async (error: unknown) => {
    await parts.close();
    throw error;
  });
  return {
    engine: opened.engine,
    plans: ports.plans,
    worker: opened.worker,
    async close(drainMs) {
      await opened.close(drainMs);
      await parts.close();
    },
  };
}

/** The SDK brings 200 MB, so it is installed only where it is used. */
async function loadAdapter(): Promise<typeof import('../engines/temporal/open-temporal.ts')> {
  try {
    return await import('../engines/temporal/open-temporal.ts');
  } catch (error) {
    if ((error as { code?: string }).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    const message = `The engine 'temporal' needs packages that are not installed; run: npm install ${PACKAGES.join(' ')}`;
    throw new AppError('DEPENDENCY_MISSING', message, { packages: PACKAGES }, { cause: error });
  }
}

import { dirname, join } from 'node:path';
import { AppError } from '../contracts/errors.ts';
import type { EngineName } from '../contracts/values.ts';
import type { PlanLocation } from '../engines/plan-ref.ts';
import { SecretResolver, type SecretsProvider } from '../lib/secrets.ts';
import type { PostgresStore } from '../store/postgres-store.ts';
import type { ClaimScope } from '../store/work.ts';
import { LocalArtifactStore } from '../tools/artifact/local-artifact-store.ts';
import { EnvSecretsProvider } from '../tools/secrets/env-provider.ts';
import type { ArtifactStore } from '../tools/tool.ts';
import type { LogLine } from '../worker/ports.ts';
import { builtInTools } from './built-in-tools.ts';
import type { Settings } from './config.ts';
import { createNativeRuntime } from './create-native-runtime.ts';
import type { EngineRuntime } from './engine-parts.ts';

export interface RuntimeHooks {
  /** False: runs are started and signalled, but no work is taken. */
  readonly work: boolean;
  /** Who schedules; what the settings say by default. */
  readonly engine?: EngineName;
  /** What is taken. Everything by default. */
  readonly scope?: ClaimScope | undefined;
  readonly log?: (line: LogLine) => void;
  readonly onError?: (error: unknown, unit: string) => void;
}

/** Where values are that are too large for the log. */
export function artifactsOf(settings: Settings): ArtifactStore {
  return new LocalArtifactStore({ folder: join(settings.folder, 'artifacts') });
}

async function planLocationsOf({ planLocations, addresses }: Settings): Promise<PlanLocation[]> {
  if (planLocations.length === 0) return [];
  const { httpPlanLocation } = await import('../engines/http-plan-location.ts');
  // What the http tool may reach by exception, plans may too; what it refuses is not wider for plans.
  const exceptions = {
    ...(addresses?.allow ? { allow: addresses.allow } : {}),
    ...(addresses?.deny ? { deny: addresses.deny } : {}),
  };
  return planLocations.map((prefix) => httpPlanLocation(prefix, { addresses: exceptions }));
}

/** The engine as the settings describe it, on a store that is open. */
export async function openRuntime(
  settings: Settings,
  store: PostgresStore,
  hooks: RuntimeHooks,
): Promise<EngineRuntime> {
  const providers: SecretsProvider[] = [new EnvSecretsProvider({ env: settings.env })];
  if (settings.secretsFile !== undefined) {
    const { FileSecretsProvider } = await import('../tools/secrets/file-provider.ts');
    providers.push(new FileSecretsProvider(settings.secretsFile));
  }
  const { concurrency } = settings;
  const base = {
    store,
    tools: hooks.work ? await builtInTools(settings) : [],
    artifacts: artifactsOf(settings),
    secrets: new SecretResolver(providers),
    planLocations: await planLocationsOf(settings),
    addresses: settings.addresses,
    // Scripts lie beside the playbooks of the project.
    scriptFolders: [dirname(settings.configFile ?? settings.folder), ...settings.playbooks],
    ...(hooks.log ? { log: hooks.log } : {}),
  };
  const worker = {
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(hooks.onError ? { onError: hooks.onError } : {}),
  };
  const engine = hooks.engine ?? settings.engine;
  switch (engine) {
    case 'native':
      return createNativeRuntime({ ...base, worker: hooks.work ? { ...worker, scope: hooks.scope } : false });
    case 'temporal': {
      const { createTemporalRuntime } = await import('./create-temporal-runtime.ts');
      const { tenants = [hooks.scope?.tenantId ?? settings.scope.tenantId], ...temporal } = settings.temporal;
      return createTemporalRuntime({
        ...base,
        temporal: { ...temporal, tenants },
        worker: hooks.work ? worker : false,
        ...(hooks.onError ? { onError: hooks.onError } : {}),
      });
    }
    default:
      throw new AppError('CAPABILITY_NOT_SUPPORTED', `This version has no engine '${engine}' to run on.`, { engine });
  }
}

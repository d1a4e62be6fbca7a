import { join } from 'node:path';
import { SecretResolver, type SecretsProvider } from '../lib/secrets.ts';
import type { PostgresStore } from '../store/postgres-store.ts';
import type { ClaimScope } from '../store/work.ts';
import { LocalArtifactStore } from '../tools/artifact/local-artifact-store.ts';
import { EnvSecretsProvider } from '../tools/secrets/env-provider.ts';
import type { ArtifactStore } from '../tools/tool.ts';
import type { LogLine } from '../worker/ports.ts';
import { builtInTools } from './built-in-tools.ts';
import type { Settings } from './config.ts';
import { createNativeRuntime, type NativeRuntime } from './create-native-runtime.ts';

export interface RuntimeHooks {
  /** False: runs are started and signalled, but no work is taken. */
  readonly work: boolean;
  /** What is taken. Everything by default. */
  readonly scope?: ClaimScope | undefined;
  readonly log?: (line: LogLine) => void;
  readonly onError?: (error: unknown, unit: string) => void;
}

/** Where values are that are too large for the log. */
export function artifactsOf(settings: Settings): ArtifactStore {
  return new LocalArtifactStore({ folder: join(settings.folder, 'artifacts') });
}

/** The native engine as the settings describe it, on a store that is open. */
export async function openRuntime(
  settings: Settings,
  store: PostgresStore,
  hooks: RuntimeHooks,
): Promise<NativeRuntime> {
  const providers: SecretsProvider[] = [new EnvSecretsProvider({ env: settings.env })];
  if (settings.secretsFile !== undefined) {
    const { FileSecretsProvider } = await import('../tools/secrets/file-provider.ts');
    providers.push(new FileSecretsProvider(settings.secretsFile));
  }
  const { concurrency } = settings;
  return createNativeRuntime({
    store,
    tools: hooks.work ? await builtInTools(settings) : [],
    artifacts: artifactsOf(settings),
    secrets: new SecretResolver(providers),
    worker: hooks.work
      ? {
          ...(concurrency === undefined ? {} : { concurrency }),
          scope: hooks.scope,
          ...(hooks.onError ? { onError: hooks.onError } : {}),
        }
      : false,
    ...(hooks.log ? { log: hooks.log } : {}),
  });
}

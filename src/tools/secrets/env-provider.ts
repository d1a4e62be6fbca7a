import { AppError } from '../../contracts/errors.ts';
import type { SecretScope, SecretsProvider } from '../../lib/secrets.ts';

export interface EnvProviderOptions {
  /** The variables; given by the configuration, which alone reads the environment. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly prefix?: string;
  /**
   * Whom the variables belong to. One process has one environment, so it cannot hold the secrets of several tenants apart: with
   * this given, others find nothing. Without it everybody who runs here shares them.
   */
  readonly scope?: Partial<SecretScope>;
}

/** Secrets from variables: `pg_main` is `RUNLEDGER_SECRET_PG_MAIN`; a JSON object in it is a secret of several fields. */
export class EnvSecretsProvider implements SecretsProvider {
  readonly name = 'env';
  readonly #options: EnvProviderOptions;

  constructor(options: EnvProviderOptions) {
    this.#options = options;
  }

  async resolve(refs: readonly string[], scope: SecretScope): Promise<ReadonlyMap<string, unknown>> {
    const found = new Map<string, unknown>();
    if (!this.#isTheirs(scope)) return found;
    for (const ref of refs) {
      const text = this.#options.env[this.#variable(ref)];
      if (text !== undefined && text !== '') found.set(ref, readValue(ref, text));
    }
    return found;
  }

  howTo(ref: string, scope: SecretScope): string | undefined {
    return this.#isTheirs(scope) ? `set the environment variable ${this.#variable(ref)}` : undefined;
  }

  #variable(ref: string): string {
    const { prefix = 'RUNLEDGER_SECRET_' } = this.#options;
    return `${prefix}${ref.toUpperCase().replace(/[^A-Z0-9]/g, '_')}`;
  }

  #isTheirs(scope: SecretScope): boolean {
    const { scope: owner = {} } = this.#options;
    return (
      (owner.tenantId ?? scope.tenantId) === scope.tenantId &&
      (owner.environmentId ?? scope.environmentId) === scope.environmentId
    );
  }
}

function readValue(ref: string, text: string): unknown {
  if (!text.trimStart().startsWith('{')) return text;
  try {
    return JSON.parse(text);
  } catch {
    throw new AppError('SECRET_INVALID', `the variable of the secret '${ref}' begins like JSON and is none`, {
      name: ref,
    });
  }
}

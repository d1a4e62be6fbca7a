import { AppError } from '../contracts/errors.ts';

/** Who asks. A provider must not answer one tenant with the secrets of another. */
export interface SecretScope {
  readonly tenantId: string;
  readonly environmentId: string;
}

/** Where secrets come from. Only workers have one: plans, logs and servers hold names. */
export interface SecretsProvider {
  readonly name: string;
  /** The values of those that exist; a missing one is left out of the answer. */
  resolve(refs: readonly string[], scope: SecretScope): Promise<ReadonlyMap<string, unknown>>;
  /** What a person does to have the secret found here, as the end of a sentence. */
  howTo?(ref: string, scope: SecretScope): string | undefined;
}

/** What is recorded of a secret that a task asked for. It is resolved again wherever it is used. */
export interface SecretReference {
  readonly _secret: { readonly name: string; readonly field?: string };
}

function isSecretReference(value: unknown): value is SecretReference {
  if (typeof value !== 'object' || value === null) return false;
  const { _secret: secret, ...rest } = value as Record<string, unknown>;
  return (
    Object.keys(rest).length === 0 &&
    typeof secret === 'object' &&
    secret !== null &&
    typeof (secret as { name?: unknown }).name === 'string'
  );
}

/** Asks providers in their order. The first that has the name answers, so a nearer one can replace what a wider one has. */
export class SecretResolver {
  readonly #providers: readonly SecretsProvider[];

  constructor(providers: readonly SecretsProvider[]) {
    this.#providers = providers;
  }

  async resolve(name: string, scope: SecretScope): Promise<unknown> {
    for (const provider of this.#providers) {
      const found = await provider.resolve([name], scope);
      if (found.has(name)) return found.get(name);
    }
    const asked = this.#providers.map((provider) => provider.name).join(', ') || 'no provider is configured';
    const message = `there is no secret '${name}' for tenant '${scope.tenantId}' and environment '${scope.environmentId}' (asked: ${asked})${this.#howTo(name, scope)}`;
    throw new AppError('SECRET_NOT_FOUND', message, { name });
  }

  #howTo(name: string, scope: SecretScope): string {
    const ways = this.#providers.flatMap((provider) => provider.howTo?.(name, scope) ?? []);
    return ways.length === 0 ? '' : `: ${ways.join(', or ')}`;
  }
}

/** Replaces the references in the fields of a tool by their values, right before the call. */
export async function resolveSecretReferences(
  value: unknown,
  lookup: (name: string) => Promise<unknown>,
): Promise<unknown> {
  if (isSecretReference(value)) return pickField(value, await lookup(value._secret.name));
  if (Array.isArray(value)) return await Promise.all(value.map((item) => resolveSecretReferences(item, lookup)));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(
    async ([key, item]) => [key, await resolveSecretReferences(item, lookup)] as const,
  );
  return Object.fromEntries(await Promise.all(entries));
}

export function pickField(reference: SecretReference, value: unknown): unknown {
  const { name, field } = reference._secret;
  if (field === undefined) return value;
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, field)) {
    throw new AppError('SECRET_INVALID', `the secret '${name}' has no field '${field}'`, { name, field });
  }
  return (value as Record<string, unknown>)[field];
}

import { AppError } from '../contracts/errors.ts';
import type { Plan, Task } from '../contracts/plan.ts';
import type { JsonObject } from '../kernel/payload-reader.ts';
import type { Redactor } from '../lib/redact.ts';
import type { SecretsProvider } from './ports.ts';

type Scope = { readonly tenantId: string; readonly environmentId: string };

/** The entries of the keychain that a task's fields name, resolved just before the call and known to the redactor. */
export async function resolveKeychain(
  plan: Plan,
  task: Task,
  secrets: SecretsProvider,
  scope: Scope,
  redactor: Redactor,
): Promise<JsonObject> {
  if (plan.keychain.length === 0) return {};
  const text = JSON.stringify(task.with);
  if (!text.includes('keychain')) return {};
  const found: Record<string, unknown> = {};
  for (const entry of plan.keychain) {
    const name = String(entry['name']);
    if (!text.includes(name)) continue;
    found[name] = await resolveEntry(entry, secrets, scope);
    redactor.add(found[name]);
  }
  return found;
}

async function resolveEntry(entry: JsonObject, secrets: SecretsProvider, scope: Scope): Promise<unknown> {
  const { kind, name } = entry;
  switch (kind) {
    case 'credential':
      return secrets.resolve(String(entry['credential'] ?? name), scope);
    case 'bearer':
      return { token: await secrets.resolve(String(entry['token'] ?? name), scope) };
    case 'secrets': {
      const values: Record<string, unknown> = {};
      for (const [key, ref] of Object.entries((entry['map'] ?? {}) as JsonObject)) {
        values[key] = await secrets.resolve(String(ref), scope);
      }
      return values;
    }
    case 'static':
      return entry['map'] ?? {};
    default:
      throw new AppError(
        'TOOL_UNAVAILABLE',
        `The keychain entry '${String(name)}' is of the kind '${String(kind)}', which this version does not resolve.`,
      );
  }
}

import { AppError } from '../contracts/errors.ts';
import type { Plan, Task } from '../contracts/plan.ts';
import { hasTemplate } from '../kernel/expressions/scan-blocks.ts';
import { isObject, type JsonObject } from '../kernel/payload-reader.ts';
import type { Redactor } from '../lib/redact.ts';
import type { OAuthTokens } from './oauth-tokens.ts';
import type { SecretsProvider } from './ports.ts';

interface KeychainPorts {
  readonly secrets: SecretsProvider;
  readonly tokens: OAuthTokens;
  readonly scope: { readonly tenantId: string; readonly environmentId: string };
  readonly redactor: Redactor;
  /** Renders what an entry says; it may read other entries. */
  readonly render: (source: unknown, keychain: JsonObject) => Promise<unknown>;
}

/** The entries of the keychain that a task's fields name, resolved just before the call and known to the redactor. */
export async function resolveKeychain(plan: Plan, task: Task, ports: KeychainPorts): Promise<JsonObject> {
  if (plan.keychain.length === 0) return {};
  return new Keychain(plan.keychain, ports).namedIn(task.with);
}

class Keychain {
  readonly #entries: readonly JsonObject[];
  readonly #ports: KeychainPorts;
  readonly #under = new Set<string>();

  constructor(entries: readonly JsonObject[], ports: KeychainPorts) {
    this.#entries = entries;
    this.#ports = ports;
  }

  async namedIn(source: unknown): Promise<JsonObject> {
    const text = JSON.stringify(source) ?? '';
    if (!text.includes('keychain')) return {};
    const found: Record<string, unknown> = {};
    for (const entry of this.#entries) {
      const name = String(entry['name']);
      if (!text.includes(name) || this.#under.has(name)) continue;
      // An entry that needs itself finds nothing there, and its template says so.
      this.#under.add(name);
      found[name] = await this.#resolve(entry, name);
      this.#under.delete(name);
      this.#ports.redactor.add(entry['kind'] === 'oauth2' ? secretsIn(found[name]) : found[name]);
    }
    return found;
  }

  async #resolve(entry: JsonObject, name: string): Promise<unknown> {
    switch (entry['kind']) {
      case 'credential':
        return this.#secret(String((await this.#rendered(entry['credential'])) ?? name));
      case 'bearer':
        return { token: await this.#bearer(entry['token'] ?? name) };
      case 'secrets': {
        const values: Record<string, unknown> = {};
        const map = await this.#rendered(entry['map']);
        for (const [key, ref] of Object.entries(isObject(map) ? map : {}))
          values[key] = await this.#secret(String(ref));
        return values;
      }
      case 'static':
        return this.#dereferenced((await this.#rendered(entry['map'])) ?? {});
      case 'oauth2':
        return this.#oauth2(entry, name);
      default:
        throw new AppError(
          'TOOL_UNAVAILABLE',
          `The keychain entry '${name}' is of the kind '${String(entry['kind'])}', which this version does not resolve.`,
        );
    }
  }

  /** A template gives the token itself, a plain text names it. */
  async #bearer(token: unknown): Promise<unknown> {
    if (typeof token !== 'string' || !hasTemplate(token)) return this.#secret(String(token));
    return this.#rendered(token);
  }

  async #oauth2(entry: JsonObject, name: string): Promise<JsonObject> {
    const { endpoint, method, headers, data } = (await this.#dereferenced(
      await this.#rendered({
        endpoint: entry['endpoint'],
        method: entry['method'] ?? 'POST',
        headers: entry['headers'] ?? {},
        data: entry['data'] ?? { grant_type: 'client_credentials' },
      }),
    )) as JsonObject;
    // What is sent for the token is as secret as the token.
    this.#ports.redactor.add(secretsIn(data));
    this.#ports.redactor.add(secretsIn(headers));
    const token = await this.#ports.tokens.token(
      {
        name,
        endpoint: String(endpoint),
        method: String(method),
        headers: Object.fromEntries(
          Object.entries(isObject(headers) ? headers : {}).map(([key, value]) => [key, String(value)]),
        ),
        data: isObject(data) ? data : {},
        autoRenew: entry['auto_renew'] !== false,
      },
      this.#ports.scope,
    );
    return token;
  }

  async #rendered(source: unknown): Promise<unknown> {
    if (source === undefined) return undefined;
    return this.#ports.render(source, await this.namedIn(source));
  }

  #secret(reference: string): Promise<unknown> {
    const { secrets, scope, redactor } = this.#ports;
    const name = REFERENCE.exec(reference)?.[1] ?? reference;
    return secrets.resolve(name, scope).then((value) => {
      redactor.add(value);
      return value;
    });
  }

  /** References such as `env:TOKEN` inside of a value, replaced by what they stand for. */
  async #dereferenced(value: unknown): Promise<unknown> {
    if (typeof value === 'string') return REFERENCE.test(value) ? this.#secret(value) : value;
    if (Array.isArray(value)) return Promise.all(value.map((item) => this.#dereferenced(item)));
    if (!isObject(value)) return value;
    const entries = Object.entries(value).map(async ([key, item]) => [key, await this.#dereferenced(item)] as const);
    return Object.fromEntries(await Promise.all(entries));
  }
}

const REFERENCE = /^(?:env|secrets?)(?::\/\/|:)(\S+)$/;

/** What only says which token is meant: `Bearer` is in every second text. */
const PLAIN: ReadonlySet<string> = new Set([
  'accept',
  'audience',
  'content-type',
  'expires_in',
  'grant_type',
  'resource',
  'scope',
  'token_type',
  'user-agent',
]);

/** Of a request for a token, or of its answer, everything that has to stay secret. */
function secretsIn(value: unknown): JsonObject {
  const entries = Object.entries(isObject(value) ? value : {}).filter(([key]) => !PLAIN.has(key.toLowerCase()));
  return Object.fromEntries(entries.map(([key, item]) => [`secret_${key}`, item]));
}

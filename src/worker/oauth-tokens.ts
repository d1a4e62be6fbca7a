import { AppError } from '../contracts/errors.ts';
import { isObject, type JsonObject } from '../kernel/payload-reader.ts';
import { canonicalJson } from '../lib/canonical-json.ts';
import { sha256Hex } from '../lib/hash.ts';
import type { AddressPolicy } from '../lib/net-guard.ts';
import { type Downloaded, download } from '../tools/http/download.ts';

export interface TokenRequest {
  readonly name: string;
  readonly endpoint: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly data: JsonObject;
  /** Fetch another one before this one ends; else it is used to its end. */
  readonly autoRenew: boolean;
}

interface Kept {
  readonly token: Promise<JsonObject>;
  /** From when on another one is fetched. */
  renewAt: number;
}

/** A server that says nothing about the end of its tokens: so long they are used. */
const UNSAID_SECONDS = 300;
const RENEW_BEFORE_SECONDS = 60;
const MAX_KEPT = 500;
const MAX_BYTES = 256 * 1024;

/**
 * Tokens of the OAuth 2 kind, fetched on the worker and kept in its memory alone. Who asks with other credentials, or for another
 * tenant, has another token.
 */
export class OAuthTokens {
  readonly #policy: AddressPolicy;
  readonly #now: () => number;
  readonly #kept = new Map<string, Kept>();

  constructor(addresses: Partial<AddressPolicy> = {}, now: () => number = Date.now) {
    this.#policy = { refuse: ['link-local', 'metadata', 'reserved'], ...addresses };
    this.#now = now;
  }

  async token(request: TokenRequest, scope: JsonObject): Promise<JsonObject> {
    const key = sha256Hex(canonicalJson({ request, scope }));
    const known = this.#kept.get(key);
    if (known && this.#now() < known.renewAt) return known.token;
    if (this.#kept.size >= MAX_KEPT) this.#kept.delete(this.#kept.keys().next().value as string);
    // Whoever asks meanwhile waits for the same answer.
    const kept: Kept = { token: this.#fetch(request), renewAt: Number.POSITIVE_INFINITY };
    this.#kept.set(key, kept);
    try {
      const token = await kept.token;
      const seconds = Number(token['expires_in'] ?? UNSAID_SECONDS);
      const lasts = Number.isFinite(seconds) ? seconds : UNSAID_SECONDS;
      const early = request.autoRenew ? Math.min(RENEW_BEFORE_SECONDS, lasts / 2) : 0;
      kept.renewAt = this.#now() + (lasts - early) * 1000;
      return token;
    } catch (error) {
      this.#kept.delete(key);
      throw error;
    }
  }

  async #fetch(request: TokenRequest): Promise<JsonObject> {
    const { name, endpoint } = request;
    let answer: Downloaded;
    try {
      answer = await download(...wire(request, this.#policy));
    } catch (error) {
      if (error instanceof AppError) throw new AppError(error.code, `The token of '${name}': ${error.message}`);
      const reason = (error as NodeJS.ErrnoException).code ?? 'no answer';
      throw new AppError(
        'SECRET_UNAVAILABLE',
        `The token of '${name}' could not be fetched from ${endpoint}: ${reason}`,
      );
    }
    const { status, bytes } = answer;
    if (status >= 500 || status === 429) {
      throw new AppError('SECRET_UNAVAILABLE', `The token of '${name}' was answered ${status} by ${endpoint}.`);
    }
    // The body is not shown: servers repeat what they were sent.
    if (status >= 300)
      throw new AppError('SECRET_INVALID', `The token of '${name}' was refused with ${status} by ${endpoint}.`);
    const body = parsed(bytes);
    const token = body?.['access_token'] ?? body?.['token'] ?? body?.['id_token'];
    if (body === undefined || typeof token !== 'string' || token === '') {
      throw new AppError('SECRET_INVALID', `The answer of ${endpoint} for '${name}' holds no access_token.`);
    }
    return { ...body, token };
  }
}

function wire(request: TokenRequest, policy: AddressPolicy): Parameters<typeof download> {
  const { endpoint, data } = request;
  const method = request.method.toUpperCase();
  const headers: Record<string, string> = { accept: 'application/json' };
  for (const [name, value] of Object.entries(request.headers)) headers[name.toLowerCase()] = value;
  const form = new URLSearchParams();
  for (const [key, value] of Object.entries(data)) form.set(key, textOf(value));
  const options = { policy, maxBytes: MAX_BYTES };
  if (method === 'GET') {
    const url = new URL(endpoint);
    for (const [key, value] of form) url.searchParams.set(key, value);
    return [url.href, { ...options, request: { method, headers } }];
  }
  headers['content-type'] ??= 'application/x-www-form-urlencoded';
  const text = headers['content-type'].includes('json') ? JSON.stringify(data) : form.toString();
  return [endpoint, { ...options, request: { method, headers, body: Buffer.from(text) } }];
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));

function parsed(bytes: Buffer): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(bytes.toString('utf8'));
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

import type { IncomingMessage } from 'node:http';
import { AppError } from '../../contracts/errors.ts';
import type { AddressPolicy, Resolver } from '../../lib/net-guard.ts';
import { defaultEffectKey, destinationKey } from '../effect-key.ts';
import { abortError, inputProblem, refusedOutcome } from '../outcomes.ts';
import type { CallContext, CallPlace, EffectClass, ProposedAction, Tool, ToolOutcome } from '../tool.ts';
import { type Exchange, exchange } from './exchange.ts';
import { authHeaders, readAuth } from './http-auth.ts';
import { networkError, statusError } from './http-errors.ts';
import { buildRequest, HttpInput, type HttpRequest, isRead, methodOf, targetOf } from './http-request.ts';
import { type BodyLimits, type ReadBody, readBody } from './read-body.ts';
import { HttpConnections } from './send-request.ts';

export interface HttpToolOptions extends Partial<BodyLimits> {
  /** Where calls may go. By default everywhere but to link-local, metadata and reserved addresses. */
  readonly addresses?: Partial<AddressPolicy>;
  /** Whether a task may say `verify_ssl: false`. */
  readonly allowUnverifiedTls?: boolean;
  /** Certificates of authorities that are trusted instead of the public ones, as PEM. */
  readonly ca?: string;
  readonly connectTimeoutMs?: number;
  readonly resolve?: Resolver;
}

const DEFAULTS = { inlineBytes: 1024 * 1024, maxBytes: 256 * 1024 * 1024, connectTimeoutMs: 10_000 };

/** Calls HTTP endpoints. GET, HEAD and OPTIONS read, the other methods write. */
export class HttpTool implements Tool {
  readonly kind = 'http';
  readonly input = HttpInput;
  readonly #options: HttpToolOptions & typeof DEFAULTS;
  readonly #policy: AddressPolicy;
  readonly #connections = new HttpConnections();

  constructor(options: HttpToolOptions = {}) {
    this.#options = { ...DEFAULTS, ...options };
    this.#policy = { refuse: ['link-local', 'metadata', 'reserved'], ...options.addresses };
  }

  classify(input: Record<string, unknown>): EffectClass {
    return isRead(methodOf(input as HttpInput)) ? 'read' : 'write';
  }

  propose(input: Record<string, unknown>): ProposedAction {
    const fields = input as HttpInput;
    const body = fields.json ?? fields.data ?? fields.payload ?? fields.body ?? fields.form;
    const names = typeof body === 'object' && body !== null && !Array.isArray(body) ? Object.keys(body) : [];
    return { operation: methodOf(fields), target: targetOf(fields), fields: names };
  }

  effectKey(input: Record<string, unknown>, place: CallPlace): string {
    const fields = input as HttpInput;
    const { json, data, payload, body, form, params } = fields;
    const identity = { json, data, payload, body, form, params };
    return defaultEffectKey(`http:${methodOf(fields)}`, targetOf(fields), place, identity);
  }

  /** RFC 9110: sending PUT or DELETE again has no further effect. Whether a server honours the header is not known. */
  honoursKey(input: Record<string, unknown>): boolean {
    const method = methodOf(input as HttpInput);
    return method === 'PUT' || method === 'DELETE';
  }

  async call(input: Record<string, unknown>, context: CallContext): Promise<ToolOutcome> {
    if (context.signal.aborted) return { status: 'error', error: abortError(context.signal) };
    try {
      const fields = input as HttpInput;
      const request = await this.#prepare(fields, context);
      return await this.#send(fields, request, context);
    } catch (error) {
      if (error instanceof AppError)
        return refusedOutcome(error.code === 'INVALID_STEP_SCHEMA' ? 'input' : 'http', error);
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#connections.close();
  }

  async #prepare(fields: HttpInput, context: CallContext): Promise<HttpRequest> {
    const request = buildRequest(fields);
    if (fields.verify_ssl === false && !this.#options.allowUnverifiedTls) {
      throw inputProblem('`verify_ssl: false` is not allowed here; trust the authority of the server instead');
    }
    const headers = { ...request.headers };
    const auth = readAuth(fields.auth);
    if (auth) {
      const own = authHeaders(auth, auth.inline ?? (await context.secret(auth.name)));
      const twice = Object.keys(own).find((name) => name in headers && name === 'authorization');
      if (twice) throw inputProblem(`http has \`auth\` and \`headers.${twice}\`; keep one`);
      Object.assign(headers, own);
    }
    if (isWriteCall(request.method, context) && context.idempotencyKey !== undefined) {
      headers['idempotency-key'] ??= destinationKey(context.idempotencyKey, context.place);
    }
    return { ...request, headers };
  }

  async #send(fields: HttpInput, request: HttpRequest, context: CallContext): Promise<ToolOutcome> {
    const { signal } = context;
    const isWrite = isWriteCall(request.method, context);
    const call = { method: request.method, target: `${request.url.origin}${request.url.pathname}`, isWrite };
    const started = performance.now();
    const trace = { acted: false };
    let answer: Exchange | undefined;
    try {
      const options = {
        policy: this.#policy,
        resolve: this.#options.resolve,
        signal,
        connectTimeoutMs: this.#options.connectTimeoutMs,
        follow: fields.follow_redirects ?? true,
        verify: fields.verify_ssl ?? true,
        ca: this.#options.ca,
        connections: isWrite ? undefined : this.#connections,
      };
      answer = await exchange(request, options, trace);
      const body = await readBody(answer.response, answer.hop.method, this.#options, context.artifacts);
      return toOutcome(answer, body, call, performance.now() - started);
    } catch (error) {
      answer?.response.destroy();
      const failure = networkError(error, { ...call, acted: trace.acted });
      const unknown = failure.unknown ? { unknown: true as const } : {};
      if (signal.aborted) return { status: 'error', error: { ...abortError(signal), ...unknown } };
      if (error instanceof AppError) {
        const { code, message, retryable } = error;
        return { status: 'error', error: { kind: 'http', code, message, retryable, ...unknown } };
      }
      return { status: 'error', error: failure };
    }
  }
}

/** The author may know better than the method: some endpoints are searched with POST, some change things on GET. */
function isWriteCall(method: string, context: CallContext): boolean {
  return context.effectClass === undefined ? !isRead(method) : context.effectClass === 'write';
}

function toOutcome(
  answer: Exchange,
  body: ReadBody,
  call: { readonly method: string; readonly target: string; readonly isWrite: boolean },
  elapsedMs: number,
): ToolOutcome {
  const { response, hop, redirects } = answer;
  const status = response.statusCode ?? 0;
  const headers = flatHeaders(response);
  const failed = status >= 400;
  const result = {
    status_code: status,
    status: failed ? 'error' : 'success',
    headers,
    url: hop.url.href,
    elapsed_ms: Math.round(elapsedMs),
    data: body.value,
    body: body.value,
    ...(body.artifact ? { artifact: body.artifact } : {}),
  };
  const meta = {
    ...(redirects > 0 ? { redirects } : {}),
    ...(body.artifact ? { artifacts: [body.artifact] } : {}),
  };
  const shared = { http: { status, headers }, ...(Object.keys(meta).length > 0 ? { meta } : {}) };
  if (!failed) return { status: 'ok', result, ...shared };
  const reason = response.statusMessage ?? '';
  return { status: 'error', error: statusError({ status, reason, headers }, call, Date.now()), result, ...shared };
}

function flatHeaders(response: IncomingMessage): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(response.headers)) {
    // Cookies have commas of their own, so they are joined by lines.
    if (value !== undefined) headers[name] = Array.isArray(value) ? value.join('\n') : value;
  }
  return headers;
}

import type { IncomingMessage } from 'node:http';
import { AppError } from '../../contracts/errors.ts';
import { type AddressPolicy, checkUrl, type Resolver, resolveAllowed } from '../../lib/net-guard.ts';
import { isRead } from './http-request.ts';
import { type Hop, type HttpConnections, SendFailure, sendRequest } from './send-request.ts';

export interface ExchangeOptions {
  readonly policy: AddressPolicy;
  readonly resolve?: Resolver | undefined;
  readonly signal: AbortSignal;
  readonly connectTimeoutMs: number;
  readonly follow: boolean;
  readonly verify: boolean;
  readonly ca?: string | undefined;
  /** Kept connections, for reads. */
  readonly connections?: HttpConnections | undefined;
}

/** What is known when an exchange fails in the middle. */
export interface Trace {
  /** Some server answered, other than by sending the same request elsewhere: it may have acted. */
  acted: boolean;
}

export interface Exchange {
  readonly response: IncomingMessage;
  readonly hop: Hop;
  readonly redirects: number;
}

const MAX_REDIRECTS = 10;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** What may go to another origin: nothing that could be a credential, and headers of the author's own may be one. */
const PLAIN_HEADERS: ReadonlySet<string> = new Set([
  'accept',
  'accept-encoding',
  'accept-language',
  'content-type',
  'user-agent',
]);

/** Sends a request and follows redirects; every hop is checked, resolved and connected under the same rule. */
export async function exchange(first: Hop, options: ExchangeOptions, trace: Trace): Promise<Exchange> {
  let hop = first;
  for (let redirects = 0; ; redirects++) {
    const response = await sendChecked(hop, options);
    const location = response.headers.location;
    const status = response.statusCode ?? 0;
    if (status !== 307 && status !== 308) trace.acted = true;
    if (!options.follow || location === undefined || !REDIRECTS.has(status)) {
      return { response, hop, redirects };
    }
    // Its body is of no use, and reading it could take for ever.
    response.destroy();
    if (redirects >= MAX_REDIRECTS) {
      throw Object.assign(new Error(`more than ${MAX_REDIRECTS} redirects`), { code: 'TOO_MANY_REDIRECTS' });
    }
    hop = nextHop(hop, status, location);
  }
}

async function sendChecked(hop: Hop, options: ExchangeOptions): Promise<IncomingMessage> {
  checkUrl(hop.url, options.policy);
  const addresses = await untilAborted(
    resolveAllowed(hop.url.hostname, options.policy, options.resolve),
    options.signal,
  );
  const { signal, connectTimeoutMs, verify, ca, connections } = options;
  const send = { addresses, signal, connectTimeoutMs, verify, ca };
  if (!connections) return await sendRequest(hop, send);
  try {
    return await sendRequest(hop, { ...send, agents: connections });
  } catch (error) {
    // The kept connection had been closed by the other side: nothing was wrong with the call.
    if (error instanceof SendFailure && error.stale && !signal.aborted) return await sendRequest(hop, send);
    throw error;
  }
}

function nextHop(hop: Hop, status: number, location: string): Hop {
  const url = redirectTarget(location, hop.url);
  url.username = '';
  url.password = '';
  const becomesGet = (status === 303 && hop.method !== 'HEAD') || (status < 303 && hop.method === 'POST');
  const crosses = url.origin !== hop.url.origin;
  const method = becomesGet ? 'GET' : hop.method;
  if (crosses && !isRead(method)) {
    throw new AppError(
      'URL_NOT_ALLOWED',
      `${hop.url.origin} redirects the ${method} to ${url.origin}; a write goes only where it was let through to`,
    );
  }
  const headers = Object.fromEntries(
    Object.entries(hop.headers).filter(([name]) => {
      if (crosses && !PLAIN_HEADERS.has(name)) return false;
      return !(becomesGet && (name.startsWith('content-') || name === 'idempotency-key'));
    }),
  );
  return { method, url, headers, ...(hop.body && !becomesGet ? { body: hop.body } : {}) };
}

function redirectTarget(location: string, base: URL): URL {
  try {
    // Header bytes arrive as Latin-1; servers send UTF-8.
    return new URL(Buffer.from(location, 'latin1').toString('utf8'), base);
  } catch {
    throw Object.assign(new Error('the redirect leads to no URL'), { code: 'BAD_REDIRECT' });
  }
}

/** A name server that does not answer must not hold an aborted call. */
function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(Object.assign(new Error('aborted'), { code: 'ABORT_ERR' }));
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
    if (signal.aborted) onAbort();
  });
}

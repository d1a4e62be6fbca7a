import { AppError } from '../../contracts/errors.ts';
import type { AddressPolicy, Resolver } from '../../lib/net-guard.ts';
import { exchange } from './exchange.ts';

export interface DownloadOptions {
  readonly policy: AddressPolicy;
  readonly maxBytes: number;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  readonly ca?: string | undefined;
  readonly resolve?: Resolver | undefined;
  /** Whether a redirect may lead there; what the policy refuses is refused before. */
  readonly mayFollow?: (url: URL) => boolean;
  readonly request?: {
    readonly method: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body?: Buffer;
  };
}

export interface Downloaded {
  readonly status: number;
  readonly bytes: Buffer;
  readonly contentType: string;
}

const MAX_REDIRECTS = 5;
const TIMEOUT_MS = 30_000;

/**
 * One small document that the runner itself needs: a plan, a script, a token. The same rules hold as for the http tool: where a name
 * leads is checked, and connected where it was checked, on every hop.
 */
export async function download(uri: string, options: DownloadOptions): Promise<Downloaded> {
  const { policy, ca, resolve, request, mayFollow } = options;
  const timeout = AbortSignal.timeout(options.timeoutMs ?? TIMEOUT_MS);
  const signal = options.signal ? AbortSignal.any([options.signal, timeout]) : timeout;
  const shared = { policy, ca, resolve, signal, connectTimeoutMs: 10_000, follow: false, verify: true };
  let url = new URL(uri);
  for (let hops = 0; ; hops++) {
    const hop = { method: 'GET', headers: {}, ...request, url };
    const { response } = await exchange(hop, shared, { acted: false });
    const status = response.statusCode ?? 0;
    const { location } = response.headers;
    if (location === undefined || status < 300 || status > 399) {
      const bytes = await readLimited(response, options.maxBytes);
      return { status, bytes, contentType: response.headers['content-type'] ?? '' };
    }
    response.destroy();
    url = new URL(location, url);
    if (hops >= MAX_REDIRECTS || request || !(mayFollow?.(url) ?? true)) {
      throw new AppError('URL_NOT_ALLOWED', `${new URL(uri).origin} redirects to ${url.origin}, which is not followed`);
    }
  }
}

async function readLimited(response: AsyncIterable<Buffer> & { destroy(): unknown }, limit: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response) {
    size += chunk.length;
    if (size > limit) {
      response.destroy();
      throw new AppError('RESPONSE_TOO_LARGE', `More than ${limit} bytes were sent.`, { limit });
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

import * as http from 'node:http';
import * as https from 'node:https';
import type { LookupFunction } from 'node:net';
import type { CheckedAddress } from '../../lib/net-guard.ts';

export interface Hop {
  readonly method: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer;
}

export interface SendOptions {
  readonly addresses: readonly CheckedAddress[];
  readonly signal: AbortSignal;
  readonly connectTimeoutMs: number;
  readonly verify: boolean;
  readonly ca?: string | undefined;
  /** Reuses connections. Absent for writes, see `HttpConnections`. */
  readonly agents?: HttpConnections | undefined;
}

/** What went wrong before an answer, and whether the destination may have seen the request. */
export class SendFailure extends Error {
  override readonly name = 'SendFailure';
  readonly code: string;
  readonly sent: boolean;
  /** The connection was kept from an earlier call, and the other side may have closed it before it saw this one. */
  readonly stale: boolean;

  constructor(cause: NodeJS.ErrnoException, sent: boolean, stale: boolean) {
    super(cause.message, { cause });
    this.code = cause.code ?? 'ECONNFAILED';
    this.sent = sent;
    this.stale = stale;
  }
}

/**
 * Connections kept for reads. A write always gets a connection of its own: on a kept one, a reset that crosses the request
 * on the wire would leave its outcome unknown and a person would be asked.
 */
export class HttpConnections {
  readonly http = new http.Agent({ keepAlive: true, maxSockets: 64, maxFreeSockets: 8, timeout: 30_000 });
  readonly https = new https.Agent({ keepAlive: true, maxSockets: 64, maxFreeSockets: 8, timeout: 30_000 });

  close(): void {
    this.http.destroy();
    this.https.destroy();
  }
}

/** Sends one request to addresses that were checked, and to no others; resolves with the head of the answer. */
export function sendRequest(hop: Hop, options: SendOptions): Promise<http.IncomingMessage> {
  const { signal, addresses } = options;
  const isTls = hop.url.protocol === 'https:';
  const { promise, resolve, reject } = deferred<http.IncomingMessage>();
  let sent = false;
  const requestOptions: https.RequestOptions = {
    method: hop.method,
    // A bracketed IPv6 host is for the URL, not for the socket.
    host: hop.url.hostname.replace(/^\[|\]$/g, ''),
    port: hop.url.port === '' ? (isTls ? 443 : 80) : Number(hop.url.port),
    path: `${hop.url.pathname}${hop.url.search}`,
    headers: { ...hop.headers, host: hop.url.host, ...contentLength(hop) },
    lookup: pinned(addresses),
    agent: options.agents ? (isTls ? options.agents.https : options.agents.http) : false,
    // The parser's own limit of headers stays; a lenient one would take smuggled messages.
    insecureHTTPParser: false,
    ...(isTls ? { rejectUnauthorized: options.verify, ...(options.ca === undefined ? {} : { ca: options.ca }) } : {}),
  };
  const request = (isTls ? https : http).request(requestOptions);
  const connecting = setTimeout(() => {
    request.destroy(Object.assign(new Error('no connection in time'), { code: 'ETIMEDOUT' }));
  }, options.connectTimeoutMs);
  const onAbort = (): void => {
    request.destroy(Object.assign(new Error('aborted'), { code: 'ABORT_ERR' }));
  };
  const finish = (): void => clearTimeout(connecting);
  request.once('socket', (socket) => {
    const connected = (): void => {
      sent = true;
      finish();
    };
    if (socket.connecting || (isTls && !request.reusedSocket))
      socket.once(isTls ? 'secureConnect' : 'connect', connected);
    else connected();
  });
  request.once('response', (response) => {
    finish();
    resolve(response);
  });
  request.once('close', () => {
    finish();
    signal.removeEventListener('abort', onAbort);
    reject(new SendFailure(Object.assign(new Error('closed without an answer'), { code: 'ECONNRESET' }), sent, false));
  });
  request.on('error', (error: NodeJS.ErrnoException) => {
    finish();
    reject(new SendFailure(error, sent, request.reusedSocket));
  });
  request.once('upgrade', (_response, socket) => {
    socket.destroy();
    reject(new SendFailure(Object.assign(new Error('switched protocols'), { code: 'EPROTO' }), sent, false));
  });
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  else request.end(hop.body);
  return promise;
}

function contentLength(hop: Hop): Record<string, string> {
  if (hop.body) return { 'content-length': String(hop.body.length) };
  return ['POST', 'PUT', 'PATCH'].includes(hop.method) ? { 'content-length': '0' } : {};
}

/** A lookup that answers with the checked addresses: asking DNS a second time could give another answer. */
function pinned(addresses: readonly CheckedAddress[]): LookupFunction {
  return (_hostname, options, callback) => {
    if (options.all) callback(null, [...addresses]);
    else callback(null, addresses[0]!.address, addresses[0]!.family);
  };
}

function deferred<T>(): { promise: Promise<T>; resolve: (value: T) => void; reject: (error: Error) => void } {
  let resolve!: (value: T) => void;
  let reject!: (error: Error) => void;
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}

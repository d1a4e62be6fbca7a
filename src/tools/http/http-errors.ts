import type { ToolError } from '../tool.ts';
import { SendFailure } from './send-request.ts';

/** Failures of the network that another try may not meet. */
const RETRYABLE_CODES: ReadonlySet<string> = new Set([
  'ECONNRESET',
  'ECONNREFUSED',
  'ECONNABORTED',
  'ECONNFAILED',
  'EPIPE',
  'ETIMEDOUT',
  'EAI_AGAIN',
  'ENETDOWN',
  'ENETUNREACH',
  'EHOSTDOWN',
  'EHOSTUNREACH',
  'ERR_STREAM_PREMATURE_CLOSE',
]);
const RETRYABLE_STATUSES: ReadonlySet<number> = new Set([408, 425, 429]);
/** A gateway says that it lost the answer of the server behind it: a write may have happened there. */
const LOST_BY_GATEWAY: ReadonlySet<number> = new Set([502, 504]);
const MAX_RETRY_AFTER_MS = 24 * 3600 * 1000;

/** The error of an answer of 400 and above. */
export function statusError(
  answer: { readonly status: number; readonly reason: string; readonly headers: Readonly<Record<string, string>> },
  call: { readonly method: string; readonly target: string; readonly isWrite: boolean },
  now: number,
): ToolError {
  const { status, headers } = answer;
  const retryAfterMs = retryAfter(headers, now);
  return {
    kind: 'http',
    code: String(status),
    message: `${call.method} ${call.target} was answered ${status}${answer.reason ? ` ${answer.reason}` : ''}`,
    retryable: status >= 500 || RETRYABLE_STATUSES.has(status),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(call.isWrite && LOST_BY_GATEWAY.has(status) ? { unknown: true } : {}),
  };
}

/** The error of a call that got no answer, or not all of it. */
export function networkError(
  error: unknown,
  call: { readonly method: string; readonly target: string; readonly isWrite: boolean; readonly acted: boolean },
): ToolError {
  const code = (error as NodeJS.ErrnoException).code ?? 'ECONNFAILED';
  const sent = call.acted || (error instanceof SendFailure && error.sent);
  const message = (error as Error).message || code;
  return {
    kind: 'http',
    code,
    message: `${call.method} ${call.target}: ${message}`,
    retryable: RETRYABLE_CODES.has(code),
    ...(call.isWrite && sent ? { unknown: true } : {}),
  };
}

/** Retry-After in seconds or as a date. A date is compared with the server's own clock where it says what time it is. */
function retryAfter(headers: Readonly<Record<string, string>>, now: number): number | undefined {
  const text = headers['retry-after']?.trim();
  // Date.parse takes '-5' for a year.
  if (!text || !/^\d+$|[a-z]{3}/i.test(text)) return undefined;
  const delay = /^\d+$/.test(text)
    ? Number(text) * 1000
    : Date.parse(text) - (Date.parse(headers['date'] ?? '') || now);
  return Number.isNaN(delay) ? undefined : Math.min(Math.max(delay, 0), MAX_RETRY_AFTER_MS);
}

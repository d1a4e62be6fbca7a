import { AppError } from '../../contracts/errors.ts';
import { abortError } from '../outcomes.ts';
import type { ToolError, ToolOutcome } from '../tool.ts';

/** Connection failures that Node names in its own way, and those that the driver does not name at all. */
const NETWORK_CODES: ReadonlySet<string> = new Set([
  'ECONNRESET',
  'ECONNREFUSED',
  'EPIPE',
  'ETIMEDOUT',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOENT',
]);
/** Deadlock, serialization failure, a lock that was not granted, a server that starts, stops or fails over. */
const RETRYABLE: ReadonlySet<string> = new Set([
  '40001',
  '40P01',
  '55P03',
  '57P01',
  '57P02',
  '57P03',
  '57P05',
  '25P03',
]);
const CANCELED = '57014';
const READ_ONLY = '25006';
const IN_TRANSACTION = '25001';

/** Where a call was when it failed. */
export interface PgFailurePlace {
  readonly signal: AbortSignal;
  readonly readOnly: boolean;
  /** COMMIT was sent and not answered. */
  readonly committing: boolean;
}

export function pgFailure(error: unknown, place: PgFailurePlace): ToolOutcome {
  if (error instanceof AppError && !place.committing) {
    const { code, message, retryable } = error;
    const kind = code === 'INVALID_STEP_SCHEMA' ? 'input' : 'postgres';
    if (!place.signal.aborted) return { status: 'error', error: { kind, code, message, retryable } };
  }
  const code = sqlState(error);
  // An answer of the server to COMMIT says that it did not happen. A lost connection says nothing.
  const unknown = place.committing && !isServerAnswer(error) ? { unknown: true as const } : {};
  const pg = code === undefined ? {} : { pg: { code } };
  if (place.signal.aborted) return { status: 'error', error: { ...abortError(place.signal), ...unknown }, ...pg };
  return { status: 'error', error: { ...describe(error, code, place), ...unknown }, ...pg };
}

function describe(error: unknown, code: string | undefined, place: PgFailurePlace): ToolError {
  const text = (error as Error).message || 'the connection failed';
  if (code === READ_ONLY && place.readOnly) {
    const message = `this was let through as a read, and the database says that it writes (${text}); declare \`effect: {class: write}\``;
    return { kind: 'postgres', code: 'READ_ONLY_VIOLATION', message, retryable: false };
  }
  if (code === CANCELED) {
    return { kind: 'timeout', code: 'TASK_TIMEOUT', message: `the statement was ended: ${text}`, retryable: true };
  }
  const advice = code === IN_TRANSACTION ? '; statements of a task run in a transaction' : '';
  const { detail, position } = error as { detail?: string; position?: string };
  const where = position === undefined ? '' : ` (at character ${position})`;
  return {
    kind: 'postgres',
    code: code ?? 'POSTGRES',
    message: `${text}${where}${advice}${detail === undefined ? '' : `: ${detail}`}`,
    retryable: code !== undefined && isRetryable(code),
  };
}

function isRetryable(code: string): boolean {
  if (NETWORK_CODES.has(code) || RETRYABLE.has(code)) return true;
  // 08P01 is a message that the server does not understand; it will not understand it later.
  return code.startsWith('53') || (code.startsWith('08') && code !== '08P01');
}

export function sqlState(error: unknown): string | undefined {
  const { code } = error as { code?: unknown };
  if (typeof code === 'string') return code;
  const message = (error as Error).message ?? '';
  return /connection terminated|connection ended|timeout exceeded|not queryable|server closed/i.test(message)
    ? '08006'
    : undefined;
}

function isServerAnswer(error: unknown): boolean {
  const { code, severity } = error as { code?: unknown; severity?: unknown };
  // A server that was told to stop says FATAL, which leaves open whether the commit came before.
  return typeof code === 'string' && severity === 'ERROR';
}

import type { DuckDBConnection } from '@duckdb/node-api';
import { AppError } from '../../contracts/errors.ts';
import { abortError } from '../outcomes.ts';
import type { ToolError } from '../tool.ts';

/** Runs work between BEGIN and COMMIT, and ends it when the call is aborted. */
export async function runDuckTransaction<T>(
  connection: DuckDBConnection,
  readOnly: boolean,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  let committing = false;
  // An interrupted COMMIT would leave its outcome to chance; it does not take long.
  const onAbort = (): void => {
    if (!committing) connection.interrupt();
  };
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    await connection.run(readOnly ? 'BEGIN TRANSACTION READ ONLY' : 'BEGIN TRANSACTION');
    const result = await work();
    signal.throwIfAborted();
    committing = true;
    await connection.run('COMMIT');
    return result;
  } catch (error) {
    await connection.run('ROLLBACK').catch(() => {});
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

export function duckError(error: unknown, signal: AbortSignal): ToolError {
  if (signal.aborted) return abortError(signal);
  if (error instanceof AppError) {
    const { code, message, retryable } = error;
    return { kind: code === 'INVALID_STEP_SCHEMA' ? 'input' : 'duckdb', code, message, retryable };
  }
  const message = (error as Error).message ?? String(error);
  if (/transaction is launched in read-only mode/.test(message)) {
    const advice = 'this was let through as a read, and it writes; declare `effect: {class: write}`';
    return { kind: 'duckdb', code: 'READ_ONLY_VIOLATION', message: `${advice} (${message})`, retryable: false };
  }
  // `Parser Error: ...`, `TransactionContext Error: ...`: the first words are the only code there is.
  const code = /(?:^|: )([A-Za-z ]+?) Error: /.exec(message)?.[1]?.replace(/ /g, '_').toUpperCase() ?? 'DUCKDB';
  const isConflict = /Could not set lock|Conflict on|TransactionContext Error: .*conflict/i.test(message);
  return { kind: 'duckdb', code, message, retryable: isConflict };
}

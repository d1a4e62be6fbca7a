import pg from 'pg';
import { AppError } from '../../contracts/errors.ts';
import type { BoundStatement } from '../sql/bind-params.ts';

export interface StatementResult {
  readonly rows: readonly Readonly<Record<string, unknown>>[];
  readonly columns: readonly string[];
  readonly row_count: number;
  readonly status: 'success';
}

export interface RowLimits {
  readonly maxRows: number;
  readonly maxBytes: number;
}

/**
 * Runs one statement by the extended protocol, which refuses a text of two. Rows beyond the limits are not kept: the
 * statement is ended, so that a query nobody bounded does not take the memory of the worker.
 */
export function runStatement(
  client: pg.ClientBase,
  statement: BoundStatement,
  limits: RowLimits,
  stop: (running: Promise<unknown>) => Promise<void>,
): Promise<StatementResult> {
  const query = new pg.Query({
    text: statement.text,
    values: [...statement.values],
    rowMode: 'array',
    queryMode: 'extended',
  } as pg.QueryArrayConfig);
  const rows: Record<string, unknown>[] = [];
  let bytes = 0;
  let tooLarge: AppError | undefined;
  const running = new Promise<StatementResult>((resolve, reject) => {
    query.on('row', (values: unknown, result?: pg.ResultBuilder) => {
      if (tooLarge || !result) return;
      const row: Record<string, unknown> = {};
      for (const [i, value] of (values as readonly unknown[]).entries()) {
        bytes += sizeOf(value);
        // A column may be called __proto__; assigning it would not make a field.
        Object.defineProperty(row, result.fields[i]!.name, {
          value,
          enumerable: true,
          writable: true,
          configurable: true,
        });
      }
      rows.push(row);
      if (rows.length > limits.maxRows || bytes > limits.maxBytes) {
        tooLarge = new AppError(
          'RESPONSE_TOO_LARGE',
          `the statement gives more than ${limits.maxRows} rows or ${limits.maxBytes} bytes; select less, or use the tool transfer`,
        );
        rows.length = 0;
        void stop(running);
      }
    });
    query.on('error', (error) => reject(tooLarge ?? error));
    query.on('end', (result) => {
      if (tooLarge) reject(tooLarge);
      else resolve({ rows, columns: columnsOf(result), row_count: result.rowCount ?? 0, status: 'success' });
    });
  });
  client.query(query);
  return running;
}

function columnsOf(result: pg.ResultBuilder): string[] {
  return (result.fields ?? []).map(({ name }) => name);
}

function sizeOf(value: unknown): number {
  if (typeof value === 'string') return value.length;
  return typeof value === 'object' && value !== null ? JSON.stringify(value).length : 8;
}

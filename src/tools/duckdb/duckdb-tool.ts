import { resolve } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import Type, { type Static } from 'typebox';
import { AppError } from '../../contracts/errors.ts';
import { defaultEffectKey } from '../effect-key.ts';
import { abortError, inputProblem } from '../outcomes.ts';
import { type BoundStatement, bindParams } from '../sql/bind-params.ts';
import type { Statement } from '../sql/split-statements.ts';
import { paramsOf, SqlParamsField, SqlText, statementsOf, tryStatements } from '../sql/sql-input.ts';
import type { CallContext, CallPlace, EffectClass, ProposedAction, Tool, ToolError, ToolOutcome } from '../tool.ts';
import { DuckDatabases } from './duck-databases.ts';
import { isDuckRead, reachesOutside, staysInMemory } from './duck-statements.ts';
import { fromDuck, toDuck } from './duck-values.ts';
import { type DuckDb, loadDuckDb } from './load-duckdb.ts';

export const DuckDbInput = Type.Object(
  {
    /** A file; in memory where it is left out or `:memory:`. */
    database: Type.Optional(Type.String({ minLength: 1, maxLength: 4096 })),
    command: SqlText,
    params: Type.Optional(SqlParamsField),
  },
  { additionalProperties: false },
);
type DuckDbInput = Static<typeof DuckDbInput>;

export interface DuckDbToolOptions {
  /** Relative files are in this folder. */
  readonly folder?: string;
  /** DuckDB's own settings, such as memory_limit, threads, enable_external_access. */
  readonly settings?: Readonly<Record<string, string>>;
  readonly maxRows?: number;
}

interface StatementResult {
  readonly rows: readonly Readonly<Record<string, unknown>>[];
  readonly columns: readonly string[];
  readonly row_count: number;
  readonly status: 'success';
}

const DEFAULTS = { folder: '.', maxRows: 100_000 };
/** DuckDB would take four fifths of the machine; beyond the limit it spills to disk. */
const SETTINGS = { memory_limit: '1GB' };

/** Runs SQL in a DuckDB inside of the worker. */
export class DuckDbTool implements Tool {
  readonly kind = 'duckdb';
  readonly input = DuckDbInput;
  readonly #options: DuckDbToolOptions & typeof DEFAULTS;
  readonly #databases = new DuckDatabases();

  constructor(options: DuckDbToolOptions = {}) {
    this.#options = { ...DEFAULTS, ...options };
  }

  classify(input: Record<string, unknown>): EffectClass {
    const fields = input as DuckDbInput;
    const statements = tryStatements('duckdb', fields);
    const isFree = isInMemory(fields) ? staysInMemory : isDuckRead;
    return statements?.every(isFree) ? 'read' : 'write';
  }

  propose(input: Record<string, unknown>): ProposedAction {
    const fields = input as DuckDbInput;
    const statements = tryStatements('duckdb', fields) ?? [];
    const params = paramsOf(fields);
    return {
      operation: [...new Set(statements.map(({ words }) => words[0] ?? 'sql'))].join('+') || 'sql',
      target: fields.database ?? ':memory:',
      fields: params === undefined || Array.isArray(params) ? [] : Object.keys(params),
    };
  }

  effectKey(input: Record<string, unknown>, place: CallPlace): string {
    const { database = ':memory:', command, params } = input as DuckDbInput;
    return defaultEffectKey('duckdb', database, place, { command, params });
  }

  async call(input: Record<string, unknown>, context: CallContext): Promise<ToolOutcome> {
    const { signal } = context;
    if (signal.aborted) return { status: 'error', error: abortError(signal) };
    const state: CallState = { leftTrace: false };
    try {
      const fields = input as DuckDbInput;
      const statements = statementsOf('duckdb', fields);
      const bound = bindParams(statements, paramsOf(fields));
      const asRead = (context.effectClass ?? this.classify(input)) !== 'write';
      const duckdb = await loadDuckDb();
      const path = isInMemory(fields) ? undefined : resolve(this.#options.folder, fields.database!);
      const settings = { ...SETTINGS, ...this.#options.settings };
      const result = await this.#databases.use(duckdb, path, settings, async (connection) => {
        const readOnly = asRead && path !== undefined;
        return await transaction(connection, readOnly, signal, () =>
          this.#run(duckdb, connection, statements, bound, signal, state),
        );
      });
      return { status: 'ok', result };
    } catch (error) {
      return { status: 'error', error: { ...duckError(error, signal), ...(state.leftTrace ? { unknown: true } : {}) } };
    }
  }

  async #run(
    duckdb: DuckDb,
    connection: DuckDBConnection,
    statements: readonly Statement[],
    bound: readonly BoundStatement[],
    signal: AbortSignal,
    state: CallState,
  ): Promise<object> {
    const results: StatementResult[] = [];
    for (const [i, statement] of bound.entries()) {
      signal.throwIfAborted();
      if (reachesOutside(statements[i]!)) state.leftTrace = true;
      results.push(await runDuckStatement(duckdb, connection, statement, this.#options.maxRows, signal));
    }
    const last = results.at(-1)!;
    const numbered =
      results.length === 1 ? {} : Object.fromEntries(results.map((result, i) => [`command_${i}`, result]));
    return { ...last, data: last.rows, ...numbered };
  }
}

interface CallState {
  /** Something was done that a rollback does not take back. */
  leftTrace: boolean;
}

/** Runs work between BEGIN and COMMIT, and ends it when the call is aborted. */
export async function transaction<T>(
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

async function runDuckStatement(
  duckdb: DuckDb,
  connection: DuckDBConnection,
  { text, values }: BoundStatement,
  maxRows: number,
  signal: AbortSignal,
): Promise<StatementResult> {
  const extracted = await connection.extractStatements(text);
  // The splitter and DuckDB must agree; otherwise a second statement would pass unseen.
  if (extracted.count !== 1) throw inputProblem('duckdb reads one of the statements as several; give them as a list');
  const prepared = await extracted.prepare(0);
  if (values.length > 0) prepared.bind(values.map((value) => toDuck(duckdb, value)));
  const result = await prepared.stream();
  if (result.returnType !== duckdb.ResultReturnType.QUERY_RESULT) {
    return { rows: [], columns: [], row_count: result.rowsChanged, status: 'success' };
  }
  const columns = result.deduplicatedColumnNames();
  const isJson = columns.map((_name, i) => result.columnLogicalType(i).alias === 'JSON');
  const rows: Record<string, unknown>[] = [];
  for (;;) {
    signal.throwIfAborted();
    const chunk = await result.fetchChunk();
    if (!chunk || chunk.rowCount === 0) break;
    for (const values of chunk.getRows()) {
      const cells = values.map((value, i) =>
        isJson[i] && typeof value === 'string' ? JSON.parse(value) : fromDuck(duckdb, value),
      );
      rows.push(Object.fromEntries(columns.map((name, i) => [name, cells[i]])));
    }
    if (rows.length > maxRows) {
      throw new AppError(
        'RESPONSE_TOO_LARGE',
        `the statement gives more than ${maxRows} rows; select less, or use the tool transfer`,
      );
    }
  }
  return { rows, columns, row_count: rows.length, status: 'success' };
}

function isInMemory({ database }: DuckDbInput): boolean {
  return database === undefined || database.startsWith(':memory:');
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

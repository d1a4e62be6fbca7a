import { resolve } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import Type, { type Static } from 'typebox';
import { AppError } from '../../contracts/errors.ts';
import { defaultEffectKey } from '../effect-key.ts';
import { abortError } from '../outcomes.ts';
import { type BoundStatement, bindParams } from '../sql/bind-params.ts';
import type { Statement } from '../sql/split-statements.ts';
import { paramsOf, SqlParamsField, SqlText, statementsOf, tryStatements } from '../sql/sql-input.ts';
import type { CallContext, CallPlace, EffectClass, ProposedAction, Tool, ToolOutcome } from '../tool.ts';
import { DuckDatabases } from './duck-databases.ts';
import { duckChunks, startDuckStatement } from './duck-rows.ts';
import { isDuckRead, reachesOutside, staysInMemory } from './duck-statements.ts';
import { duckError, runDuckTransaction } from './duck-transaction.ts';
import { type DuckDb, loadDuckDb } from './load-duckdb.ts';

const DuckDbInput = Type.Object(
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

/** Runs SQL in a DuckDB inside of the worker. */
export class DuckDbTool implements Tool {
  readonly kind = 'duckdb';
  readonly input = DuckDbInput;
  readonly #options: DuckDbToolOptions & typeof DEFAULTS;
  readonly #databases: DuckDatabases;

  constructor(options: DuckDbToolOptions = {}) {
    this.#options = { ...DEFAULTS, ...options };
    this.#databases = new DuckDatabases(options.settings);
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
      const handle = await this.#databases.open(duckdb, path);
      try {
        const { connection } = handle;
        const result = await runDuckTransaction(connection, asRead && path !== undefined, signal, () =>
          this.#run(duckdb, connection, statements, bound, signal, state),
        );
        return { status: 'ok', result };
      } finally {
        handle.close();
      }
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
      results.push(await runStatement(duckdb, connection, statement, this.#options.maxRows, signal));
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

async function runStatement(
  duckdb: DuckDb,
  connection: DuckDBConnection,
  statement: BoundStatement,
  maxRows: number,
  signal: AbortSignal,
): Promise<StatementResult> {
  const result = await startDuckStatement(duckdb, connection, statement);
  if (result.returnType !== duckdb.ResultReturnType.QUERY_RESULT) {
    return { rows: [], columns: [], row_count: result.rowsChanged, status: 'success' };
  }
  const rows: Record<string, unknown>[] = [];
  const columns = result.deduplicatedColumnNames();
  for await (const chunk of duckChunks(duckdb, result)) {
    signal.throwIfAborted();
    for (const row of chunk) rows.push(Object.fromEntries(columns.map((name, i) => [name, row[i]])));
    if (rows.length > maxRows) {
      const message = `the statement gives more than ${maxRows} rows; select less, or use the tool transfer`;
      throw new AppError('RESPONSE_TOO_LARGE', message);
    }
  }
  return { rows, columns, row_count: rows.length, status: 'success' };
}

function isInMemory({ database }: DuckDbInput): boolean {
  return database === undefined || database.startsWith(':memory:');
}

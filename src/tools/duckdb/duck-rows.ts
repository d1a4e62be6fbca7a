import type { DuckDBConnection, DuckDBResult } from '@duckdb/node-api';
import { inputProblem } from '../outcomes.ts';
import type { BoundStatement } from '../sql/bind-params.ts';
import { lastByKey, quoteIdentifier, type RowChunk, type TransferMode } from '../sql/row-chunk.ts';
import { fromDuck, toDuck } from './duck-values.ts';
import type { DuckDb } from './load-duckdb.ts';

export async function startDuckStatement(
  duckdb: DuckDb,
  connection: DuckDBConnection,
  { text, values }: BoundStatement,
): Promise<DuckDBResult> {
  const extracted = await connection.extractStatements(text);
  // The splitter and DuckDB must agree; otherwise a second statement would pass unseen.
  if (extracted.count !== 1) throw inputProblem('duckdb reads one of the statements as several; give them as a list');
  const prepared = await extracted.prepare(0);
  if (values.length > 0) prepared.bind(values.map((value) => toDuck(duckdb, value)));
  return await prepared.stream();
}

/** Rows as DuckDB hands them out, with values as JSON holds them. */
export async function* duckChunks(duckdb: DuckDb, result: DuckDBResult): AsyncGenerator<unknown[][]> {
  const isJson = Array.from({ length: result.columnCount }, (_, i) => result.columnLogicalType(i).alias === 'JSON');
  for (;;) {
    const chunk = await result.fetchChunk();
    if (!chunk || chunk.rowCount === 0) return;
    yield chunk
      .getRows()
      .map((row) =>
        row.map((value, i) => (isJson[i] && typeof value === 'string' ? JSON.parse(value) : fromDuck(duckdb, value))),
      );
  }
}

/** Rows of one statement in chunks of a size. */
export async function* readDuckRows(
  duckdb: DuckDb,
  connection: DuckDBConnection,
  statement: BoundStatement,
  chunkSize: number,
): AsyncGenerator<RowChunk> {
  const result = await startDuckStatement(duckdb, connection, statement);
  const columns = result.deduplicatedColumnNames();
  let rows: unknown[][] = [];
  for await (const more of duckChunks(duckdb, result)) {
    rows.push(...more);
    for (; rows.length >= chunkSize; rows = rows.slice(chunkSize)) yield { columns, rows: rows.slice(0, chunkSize) };
  }
  if (rows.length > 0) yield { columns, rows };
}

const MAX_PARAMETERS = 20_000;

/** Columns of a table that hold bytes; JSON carries those as base64. */
export async function blobColumns(connection: DuckDBConnection, table: string): Promise<ReadonlySet<string>> {
  const described = await connection.run(`DESCRIBE ${table}`);
  const rows = await described.getRowObjects();
  return new Set(rows.filter((row) => row['column_type'] === 'BLOB').map((row) => String(row['column_name'])));
}

export async function loadDuckChunk(
  duckdb: DuckDb,
  connection: DuckDBConnection,
  target: { readonly table: string; readonly blobs: ReadonlySet<string> },
  chunk: RowChunk,
  mode: TransferMode,
  keys: readonly string[],
): Promise<number> {
  if (mode === 'upsert' && keys.length === 0) throw inputProblem('upsert into duckdb needs `keys`');
  const { rows } = mode === 'upsert' ? lastByKey(chunk, keys) : chunk;
  const perStatement = Math.max(Math.floor(MAX_PARAMETERS / Math.max(chunk.columns.length, 1)), 1);
  const names = chunk.columns.map(quoteIdentifier).join(', ');
  for (let from = 0; from < rows.length; from += perStatement) {
    const part = rows.slice(from, from + perStatement);
    let place = 0;
    const tuple = (): string => {
      const places = chunk.columns.map((name) =>
        target.blobs.has(name) ? `from_base64($${++place}::VARCHAR)` : `$${++place}`,
      );
      return `(${places.join(', ')})`;
    };
    const text = `INSERT INTO ${target.table} (${names}) VALUES ${part.map(tuple).join(', ')}${mode === 'upsert' ? onConflict(chunk.columns, keys) : ''}`;
    await connection.run(
      text,
      part.flat().map((value) => toDuck(duckdb, value)),
    );
  }
  return rows.length;
}

function onConflict(columns: readonly string[], keys: readonly string[]): string {
  const others = columns.filter((name) => !keys.includes(name)).map(quoteIdentifier);
  const action =
    others.length === 0
      ? 'DO NOTHING'
      : `DO UPDATE SET ${others.map((name) => `${name} = EXCLUDED.${name}`).join(', ')}`;
  return ` ON CONFLICT (${keys.map(quoteIdentifier).join(', ')}) ${action}`;
}

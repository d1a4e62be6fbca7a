import type pg from 'pg';
import { inputProblem } from '../outcomes.ts';
import { lastByKey, quoteIdentifier, type RowChunk, type TransferMode } from '../sql/row-chunk.ts';

export interface PgTable {
  /** With its schema, quoted. */
  readonly name: string;
  readonly columns: ReadonlyMap<string, { readonly type: string; readonly isArray: boolean }>;
  readonly primaryKey: readonly string[];
}

// A message holds at most 65,535 parameters.
const MAX_PARAMETERS = 60_000;
const DESCRIBE = `SELECT format('%I.%I', n.nspname, c.relname) AS name,
    (SELECT json_agg(json_build_object('name', a.attname, 'type', t.typname, 'isArray', t.typcategory = 'A') ORDER BY a.attnum)
       FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
    (SELECT json_agg(a.attname ORDER BY k.place) FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(attnum, place), pg_attribute a
      WHERE i.indrelid = c.oid AND i.indisprimary AND a.attrelid = c.oid AND a.attnum = k.attnum) AS key
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass($1)`;

interface DescribedTable {
  readonly name: string;
  readonly columns: readonly { readonly name: string; readonly type: string; readonly isArray: boolean }[] | null;
  readonly key: readonly string[] | null;
}

export async function describePgTable(client: pg.ClientBase, table: string): Promise<PgTable> {
  const { rows } = await client.query<DescribedTable>(DESCRIBE, [table]);
  const row = rows[0];
  if (!row) throw inputProblem(`the target has no table '${table}'`);
  return {
    name: row.name,
    columns: new Map((row.columns ?? []).map(({ name, type, isArray }) => [name, { type, isArray }])),
    primaryKey: row.key ?? [],
  };
}

/** Writes a chunk with as few statements as the protocol allows. Values travel as parameters, each read by its column's type. */
export async function loadPgChunk(
  client: pg.ClientBase,
  table: PgTable,
  chunk: RowChunk,
  mode: TransferMode,
  keys: readonly string[],
): Promise<number> {
  const unknown = [...chunk.columns, ...keys].find((name) => !table.columns.has(name));
  if (unknown !== undefined) throw inputProblem(`${table.name} has no column '${unknown}'`);
  if (mode === 'upsert') checkKeys(table, chunk, keys);
  const { rows } = mode === 'upsert' ? lastByKey(chunk, keys) : chunk;
  const width = Math.max(chunk.columns.length, 1);
  const perStatement = Math.max(Math.floor(MAX_PARAMETERS / width), 1);
  const into = `INSERT INTO ${table.name} (${chunk.columns.map(quoteIdentifier).join(', ')}) VALUES `;
  const conflict = mode === 'upsert' ? onConflict(chunk.columns, keys) : '';
  for (let from = 0; from < rows.length; from += perStatement) {
    const part = rows.slice(from, from + perStatement);
    const values: unknown[] = [];
    const tuples = part.map((row) => {
      const places = chunk.columns.map((name, i) => {
        values.push(toPgText(row[i], table.columns.get(name)!));
        return `$${values.length}`;
      });
      return `(${places.join(', ')})`;
    });
    await client.query(into + tuples.join(', ') + conflict, values);
  }
  return rows.length;
}

function checkKeys(table: PgTable, chunk: RowChunk, keys: readonly string[]): void {
  if (keys.length === 0) throw inputProblem(`upsert into ${table.name} needs \`keys\`: it has no primary key`);
  const missing = keys.find((key) => !chunk.columns.includes(key));
  if (missing !== undefined) throw inputProblem(`upsert needs the column '${missing}', which the source does not have`);
}

function onConflict(columns: readonly string[], keys: readonly string[]): string {
  const others = columns.filter((name) => !keys.includes(name)).map(quoteIdentifier);
  const action =
    others.length === 0
      ? 'DO NOTHING'
      : `DO UPDATE SET ${others.map((name) => `${name} = EXCLUDED.${name}`).join(', ')}`;
  return ` ON CONFLICT (${keys.map(quoteIdentifier).join(', ')}) ${action}`;
}

/** The text that the input function of the column's type reads. */
function toPgText(value: unknown, column: { readonly type: string; readonly isArray: boolean }): unknown {
  if (value === null || value === undefined) return null;
  if (column.type === 'json' || column.type === 'jsonb') return JSON.stringify(value);
  if (column.type === 'bytea' && typeof value === 'string') return `\\x${Buffer.from(value, 'base64').toString('hex')}`;
  if (column.isArray && Array.isArray(value)) return arrayText(value, column.type);
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

function arrayText(values: readonly unknown[], type: string): string {
  const items = values.map((value) => {
    if (value === null || value === undefined) return 'NULL';
    if (Array.isArray(value) && type !== '_json' && type !== '_jsonb') return arrayText(value, type);
    const text = String(toPgText(value, { type: type.replace(/^_/, ''), isArray: false }));
    return `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
  });
  return `{${items.join(',')}}`;
}

import type pg from 'pg';
import { AppError } from '../../contracts/errors.ts';
import { sqlState } from './pg-errors.ts';
import type { PgLease } from './pg-pools.ts';

/**
 * The table of effects in the target: a write puts its key there in its own transaction, so both are there or neither is, and
 * whoever lost the answer can look. Only the key's first writer gets through; others wait for it and find its result.
 */
const EFFECTS_TABLE = 'runledger_effects';

const CREATE = `CREATE TABLE IF NOT EXISTS ${EFFECTS_TABLE} (
  key text PRIMARY KEY,
  result jsonb,
  at timestamptz NOT NULL DEFAULT now()
)`;
// With its schema: a statement of the task may change the search path before the result is written.
const FIND = `SELECT format('%I.%I', n.nspname, c.relname) AS "table",
    has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE') AS usable
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass('${EFFECTS_TABLE}')`;
const MAX_RESULT_BYTES = 256 * 1024;
/** The role may not create it, the database or the server is read only, or there is no schema to create it in. */
const MAY_NOT: ReadonlySet<string> = new Set(['42501', '25006', '3F000']);
/** Two sessions create the table at the same time: the later one hears of the table, of its row type, or of the catalogue's index. */
const MADE_BY_ANOTHER: ReadonlySet<string> = new Set(['42P07', '42710', '23505']);

export type EffectsTable = { readonly table: string } | { readonly missing: string };

/** Finds the table or, where the role may, makes it; outside of any transaction, once for each target. */
export async function ensureEffectsTable(lease: PgLease): Promise<EffectsTable> {
  lease.notes.effects ??= (await findEffectsTable(lease.client)) ?? (await createEffectsTable(lease.client));
  return lease.notes.effects;
}

export async function findEffectsTable(client: pg.ClientBase): Promise<EffectsTable | undefined> {
  const { rows } = await client.query<{ table: string; usable: boolean }>(FIND);
  const row = rows[0];
  if (!row) return undefined;
  return row.usable ? { table: row.table } : { missing: `the role may not read and write ${row.table}` };
}

async function createEffectsTable(client: pg.ClientBase): Promise<EffectsTable> {
  try {
    await client.query(CREATE);
  } catch (error) {
    const code = sqlState(error) ?? '';
    if (MAY_NOT.has(code)) return { missing: `the role may not create ${EFFECTS_TABLE}` };
    if (!MADE_BY_ANOTHER.has(code)) throw error;
  }
  return (await findEffectsTable(client)) ?? { missing: `${EFFECTS_TABLE} is not on the search path` };
}

/** Takes the key for this transaction. False: another transaction has it for good. Waits for one that is still open. */
export async function takeKey(client: pg.ClientBase, table: string, key: string): Promise<boolean> {
  const taken = await client.query(`INSERT INTO ${table} (key) VALUES ($1) ON CONFLICT (key) DO NOTHING`, [key]);
  return taken.rowCount === 1;
}

export async function readEffect(
  client: pg.ClientBase,
  table: string,
  key: string,
): Promise<{ result: unknown } | undefined> {
  const { rows } = await client.query<{ result: unknown }>(`SELECT result FROM ${table} WHERE key = $1`, [key]);
  return rows[0];
}

export async function writeEffect(client: pg.ClientBase, table: string, key: string, result: object): Promise<void> {
  const text = JSON.stringify(result);
  const kept = Buffer.byteLength(text) <= MAX_RESULT_BYTES ? text : JSON.stringify(withoutRows(result));
  const { rowCount } = await client.query(`UPDATE ${table} SET result = $2::jsonb WHERE key = $1`, [key, kept]);
  if (rowCount !== 1) throw new AppError('TASK_FAILED', `the statements removed the effect's key from ${table}`);
}

/** What a second caller gets of a large result: counts and columns, and a mark that the rows were left out. */
function withoutRows(result: object): object {
  return Object.fromEntries(
    Object.entries(result).map(([name, value]) => {
      if (name === 'rows') return [name, []];
      return [name, /^command_\d+$/.test(name) ? withoutRows(value as object) : value];
    }),
  );
}

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { AppError } from '../../contracts/errors.ts';
import type { Connection, Postgres } from './postgres.ts';

/** One numbered SQL file. `--! breaking` on its first line: older code cannot work on the schema any more. */
export interface Migration {
  readonly version: number;
  readonly name: string;
  readonly breaking: boolean;
  readonly sql: string;
  readonly checksum: string;
}

const FOLDER = new URL('./migrations/', import.meta.url);

export function readMigrations(): Migration[] {
  return readdirSync(FOLDER)
    .filter((file) => file.endsWith('.sql'))
    .sort()
    .map((file) => {
      const sql = readFileSync(new URL(file, FOLDER), 'utf8');
      return {
        version: Number.parseInt(file, 10),
        name: file.replace(/\.sql$/, ''),
        breaking: sql.startsWith('--! breaking'),
        sql,
        checksum: createHash('sha256').update(sql).digest('hex'),
      };
    });
}

const LOCK = 7262018;
const OWN_TABLE = `create schema if not exists runledger;
  create table if not exists runledger.migrations (
    version integer primary key, name text not null, breaking boolean not null, checksum text not null,
    applied_at timestamptz not null default clock_timestamp())`;

/** Brings the schema up to this version, one transaction per file, under a lock that other processes wait for. */
export async function migrate(postgres: Postgres, log: (line: string) => void = () => {}): Promise<string[]> {
  const migrations = readMigrations();
  const applied: string[] = [];
  for (const migration of migrations) {
    const done = await postgres.transaction(async (client) => {
      // Another process may be at it for as long as its migration takes, and so may this one.
      await client.query('set local lock_timeout = 0; set local statement_timeout = 0');
      await client.query('select pg_advisory_xact_lock($1)', [LOCK]);
      await client.query(OWN_TABLE).catch((error: unknown) => {
        throw failed('The schema runledger cannot be made', error);
      });
      checkApplied(await appliedMigrations(client), migrations);
      const { rowCount } = await client.query('select 1 from runledger.migrations where version = $1', [
        migration.version,
      ]);
      if (rowCount) return false;
      try {
        await client.query(migration.sql);
      } catch (error) {
        throw failed(`Migration ${migration.name} failed, and nothing of it was applied`, error);
      }
      await client.query(
        'insert into runledger.migrations (version, name, breaking, checksum) values ($1, $2, $3, $4)',
        [migration.version, migration.name, migration.breaking, migration.checksum],
      );
      return true;
    });
    if (done) {
      log(`applied migration ${migration.name}`);
      applied.push(migration.name);
    }
  }
  return applied;
}

/** Refuses a schema that this code cannot work on. */
export async function checkSchema(postgres: Postgres): Promise<void> {
  await postgres.transaction(async (client) => {
    const exists = await client.query(`select to_regclass('runledger.migrations') is not null as yes`);
    const migrations = readMigrations();
    const rows = exists.rows[0]?.yes ? await appliedMigrations(client) : [];
    checkApplied(rows, migrations);
    const missing = migrations.filter((m) => !rows.some((row) => row.version === m.version));
    if (missing.length > 0) {
      const names = missing.map((m) => m.name).join(', ');
      throw new AppError('STORE_SCHEMA_TOO_OLD', `The database lacks migrations: ${names}`, { missing: names });
    }
  });
}

/** What the database refuses, in its own words, and whose turn it is. What may go well next time is left as it is. */
function failed(what: string, error: unknown): unknown {
  const { message, code, detail, hint } = error as Error & { code?: string; detail?: string; hint?: string };
  // Without a state of SQL the connection was lost.
  if (code === undefined || !/^[0-9A-Z]{5}$/.test(code) || /^(08|40|53|55|57)/.test(code)) return error;
  const said = [message, detail, hint].filter((text) => text).join('; ');
  const next =
    code === '42501'
      ? 'Let a role that may create schemas in this database migrate it (see docs/postgres-roles.md), and run again: runledger migrate'
      : 'Correct what the database names, and run again: runledger migrate. What it does is shown by runledger migrate --print.';
  return new AppError('MIGRATION_FAILED', `${what}: ${said} (${code}).`, { sqlState: code, next }, { cause: error });
}

interface AppliedRow {
  readonly version: number;
  readonly name: string;
  readonly breaking: boolean;
  readonly checksum: string;
}

async function appliedMigrations(client: Connection): Promise<AppliedRow[]> {
  const result = await client.query<AppliedRow>(
    'select version, name, breaking, checksum from runledger.migrations order by version',
  );
  return result.rows;
}

function checkApplied(rows: readonly AppliedRow[], migrations: readonly Migration[]): void {
  const known = new Map(migrations.map((m) => [m.version, m]));
  for (const row of rows) {
    const migration = known.get(row.version);
    if (!migration) {
      if (!row.breaking) continue;
      throw new AppError(
        'STORE_SCHEMA_TOO_NEW',
        `The database has the breaking migration ${row.name}, which this version does not know`,
        {
          migration: row.name,
        },
      );
    }
    if (migration.checksum !== row.checksum) {
      throw new AppError(
        'MIGRATION_FAILED',
        `Migration ${row.name} is not the one that was applied to this database: another build of Runledger made its schema.`,
        {
          migration: row.name,
          next: 'Use the version that made it, or another database: a new --folder, or another DATABASE_URL.',
        },
      );
    }
  }
}

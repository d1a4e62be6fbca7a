import pg from 'pg';
import { inject } from 'vitest';

export interface TestDatabase {
  /** For `new pg.Pool({ connectionString: url })` and for child processes. */
  readonly url: string;
  /** Ends connections that are still open, and removes the database. */
  drop(): Promise<void>;
}

let made = 0;

/** A database for one test file, copied from the migrated template; `empty` gives one without the schema. */
export async function createTestDatabase(options: { readonly empty?: boolean } = {}): Promise<TestDatabase> {
  const { url, template, prefix } = inject('postgres');
  made += 1;
  const name = `${prefix}_${process.pid}_${process.env['VITEST_WORKER_ID'] ?? '0'}_${made}`;
  await execute(url, `CREATE DATABASE ${name} TEMPLATE ${options.empty ? 'template0' : template}`);
  const own = new URL(url);
  own.pathname = `/${name}`;
  return {
    url: own.href,
    drop: () => execute(url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
  };
}

async function execute(url: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}

import pg from 'pg';
import { DATABASE_USER } from './init-cluster.ts';
import { SOCKET_PORT } from './socket-folder.ts';

/** Every process that uses the server holds this lock in shared mode; a number of our own, so that no other use of advisory locks meets it. */
const HOLDERS_LOCK = '7310582946150376001';

/** A hung server must not hang the caller; the loop around tries again. */
const CONNECT_TIMEOUT_MS = 5_000;
const LOCK_TIMEOUT_MS = 5_000;

export interface Control {
  readonly client: pg.Client;
  readonly version: string;
  readonly dataDir: string;
}

/** Connects and joins the holders. While a leaver stops the server this waits, and then fails with the end of the connection. */
export async function joinHolders(socketDir: string): Promise<Control> {
  const client = await connect(socketDir, DATABASE_USER);
  try {
    const { rows } = await client.query<{ version: string; data_dir: string }>(
      `SELECT current_setting('server_version') AS version, current_setting('data_directory') AS data_dir,
              set_config('lock_timeout', '${LOCK_TIMEOUT_MS}', false)`,
    );
    await client.query(`SELECT pg_advisory_lock_shared(${HOLDERS_LOCK})`);
    return { client, version: rows[0]!.version, dataDir: rows[0]!.data_dir };
  } catch (error) {
    await end(client);
    throw error;
  }
}

/**
 * Leaves the holders; true means that nobody else is left, and as long as the connection lasts nobody can join.
 * The shared lock goes first: two leavers that each kept it while asking for the exclusive one would both be refused,
 * and the server would run on without anybody.
 */
export async function leaveHolders(client: pg.Client): Promise<boolean> {
  await client.query(`SELECT pg_advisory_unlock_shared(${HOLDERS_LOCK})`);
  const { rows } = await client.query<{ last: boolean }>(`SELECT pg_try_advisory_lock(${HOLDERS_LOCK}) AS last`);
  return rows[0]!.last;
}

/** initdb calls its database `postgres`. Renaming takes a few ms; making another one would take a fifth of the first start. */
export async function nameDatabase(socketDir: string): Promise<void> {
  const client = await connect(socketDir, 'template1');
  try {
    await client.query(`ALTER DATABASE postgres RENAME TO ${DATABASE_USER}`);
  } catch (error) {
    // Somebody else was faster.
    if ((error as { code?: string }).code !== '3D000') throw error;
  } finally {
    await end(client);
  }
}

async function connect(socketDir: string, database: string): Promise<pg.Client> {
  const client = new pg.Client({
    host: socketDir,
    port: SOCKET_PORT,
    user: DATABASE_USER,
    database,
    ssl: false,
    application_name: 'runledger control',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: LOCK_TIMEOUT_MS + CONNECT_TIMEOUT_MS,
  });
  // Without a listener the end of the server would end the process.
  client.on('error', () => undefined);
  try {
    await client.connect();
  } catch (error) {
    await end(client);
    throw error;
  }
  return client;
}

export async function end(client: pg.Client): Promise<void> {
  await client.end().catch(() => undefined);
}

/** What a failed attempt to join means for the next step. */
export type JoinFailure = 'absent' | 'busy' | 'unnamed' | 'fatal';

export function classifyJoinFailure(error: unknown): JoinFailure {
  const { code } = error as { code?: string };
  if (code === 'ENOENT' || code === 'ECONNREFUSED') return 'absent';
  // The database has no name yet: whoever made the data folder was killed right after.
  if (code === '3D000') return 'unnamed';
  // Without a code it is the driver that speaks, of a connection that ended, broke between two queries or took too long.
  if (code === undefined) return 'busy';
  // 57P01-57P03: stopping, crashed, starting. 53300: all connections taken. 55P03: a leaver takes long. 55006: renaming.
  return /^(57P0[123]|53300|55P03|55006|EAGAIN|ECONNRESET|EPIPE|ETIMEDOUT)$/.test(code) ? 'busy' : 'fatal';
}

import pg from 'pg';
import { AppError } from '../../contracts/errors.ts';

/** How to reach a Postgres: a URL, or the parts of one (the embedded server gives a socket folder as host). */
export interface PostgresTarget {
  readonly url?: string;
  readonly host?: string;
  readonly port?: number;
  readonly user?: string;
  readonly password?: string;
  readonly database?: string;
}

export interface PostgresOptions extends PostgresTarget {
  /** Connections for reads and single verbs. Appends have their own. */
  readonly maxConnections?: number;
  /** How long a call may wait for a database that went away, before it fails with STORE_UNAVAILABLE. */
  readonly retryForMs?: number;
  /** Called between tries, so that an embedded server can be started again. */
  readonly revive?: () => Promise<void>;
  readonly onWarning?: (message: string) => void;
}

/** Session settings: an event that was acknowledged is on disk, and nobody waits for ever. */
const SESSION =
  '-c synchronous_commit=on -c lock_timeout=20s -c statement_timeout=120s -c idle_in_transaction_session_timeout=60s -c timezone=UTC -c jit=off';

/**
 * A query with a name is parsed once per connection, and after some calls planned for any values. Without a name it is
 * planned for the values at hand: for conditions that some values make selective and others do not.
 */
export interface Statement {
  readonly name?: string;
  readonly text: string;
}

/** A connection as statements use it: in words of our own, so that the published types stand without those of the driver. */
export interface Connection {
  query<Row = Record<string, unknown>>(
    statement: string | (Statement & { readonly values?: unknown[] }),
    values?: unknown[],
  ): Promise<{ readonly rows: Row[]; readonly rowCount: number | null }>;
}

/** One that is told what others notify. */
export interface ListeningConnection extends Connection {
  on(event: 'end', listener: () => void): unknown;
  on(
    event: 'notification',
    listener: (message: { readonly channel: string; readonly payload?: string | undefined }) => void,
  ): unknown;
  end(): Promise<void>;
}

export interface RetryOptions {
  /** What to do about a deadlock or a lock that was not granted: by default the work is done again as it is. */
  readonly contention?: 'retry' | 'throw';
}

/** The connections of one store, with retry over a database that goes away and comes back. */
export class Postgres {
  readonly #pool: pg.Pool;
  readonly #options: PostgresOptions;
  #closed = false;
  #losses = 0;

  constructor(options: PostgresOptions) {
    this.#options = options;
    this.#pool = new pg.Pool({
      ...clientConfig(options),
      max: options.maxConnections ?? 10,
      idleTimeoutMillis: 30_000,
      verify: (client: pg.PoolClient, done: (error?: Error) => void) => {
        openSession(client).then(() => done(), done);
      },
    } as pg.PoolConfig);
    // A connection that breaks between two statements of a transaction says so as an event; unheard, it ends the process.
    this.#pool.on('connect', (client) => client.on('error', () => {}));
    // A pooled connection that breaks while idle is replaced; the next query finds out if the server is gone.
    this.#pool.on('error', () => {
      this.#losses += 1;
    });
  }

  /**
   * How often a connection was lost. The server that answers afterwards may have been restored, or be another one that
   * never saw the last commits: who remembers what it read has to ask again when this number has changed.
   */
  get losses(): number {
    return this.#losses;
  }

  /** Runs one statement. It must be safe to run twice: a lost connection is answered by running it again. */
  async query<Row>(statement: Statement, values: unknown[] = [], options: RetryOptions = {}): Promise<Row[]> {
    return this.retry(async () => (await this.#pool.query({ ...statement, values })).rows as Row[], options);
  }

  /** Runs work in a transaction on one connection. Like a query, it must be safe to run twice. */
  async transaction<T>(work: (client: Connection) => Promise<T>): Promise<T> {
    return this.retry(async () => {
      const client = await this.#pool.connect();
      try {
        await client.query('begin');
        const result = await work(client);
        await client.query('commit');
        client.release();
        return result;
      } catch (error) {
        const broken = isConnectionLoss(error);
        if (!broken) await client.query('rollback').catch(() => {});
        client.release(broken);
        throw error;
      }
    });
  }

  /** A connection outside the pool, for LISTEN. The caller ends it. */
  async dedicated(): Promise<ListeningConnection> {
    const client = new pg.Client(clientConfig(this.#options));
    client.on('error', () => {});
    await client.connect();
    return client;
  }

  async retry<T>(work: () => Promise<T>, options: RetryOptions = {}): Promise<T> {
    const until = Date.now() + (this.#options.retryForMs ?? 15_000);
    for (let pause = 20; ; pause = Math.min(pause * 2, 1000)) {
      try {
        return await work();
      } catch (error) {
        if (isConnectionLoss(error)) this.#losses += 1;
        if (this.#closed) throw new AppError('STORE_UNAVAILABLE', 'The store is closed', {}, { cause: error });
        const again = isConnectionLoss(error) || (isContention(error) && options.contention !== 'throw');
        if (!again) throw isOutOfOrder(error) ? unavailable(error) : error;
        if (Date.now() + pause > until) throw unavailable(error);
        await new Promise((resolve) => setTimeout(resolve, pause));
        if (isConnectionLoss(error)) await this.#options.revive?.().catch(() => {});
      }
    }
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#pool.end();
  }
}

function clientConfig(target: PostgresTarget): pg.ClientConfig {
  const { url, host, port, user, password, database } = target;
  const base = { options: SESSION, application_name: 'runledger', keepAlive: true, connectionTimeoutMillis: 10_000 };
  if (url !== undefined) return { ...base, connectionString: url };
  return {
    ...base,
    ...(host === undefined ? {} : { host }),
    ...(port === undefined ? {} : { port }),
    ...(user === undefined ? {} : { user }),
    ...(password === undefined ? {} : { password }),
    ...(database === undefined ? {} : { database }),
  };
}

/** A restored copy of a database is noticed here, before anything is appended through the connection. */
async function openSession(client: pg.PoolClient): Promise<void> {
  try {
    await client.query('select runledger.open_session()');
  } catch (error) {
    // Before the first migration there is no such function; migrate() runs on this very pool.
    const code = (error as { code?: string }).code;
    if (code !== '3F000' && code !== '42883') throw error;
  }
}

const LOST_SQLSTATES = new Set([
  // Read-only: this is a standby, or about to become the primary.
  '25006',
  '57P01',
  '57P02',
  '57P03',
  '53300',
  '08000',
  '08003',
  '08006',
  '08001',
  '08004',
  '25P03',
]);
const LOST_SYSTEM = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOENT',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EAI_AGAIN',
  'ENOTFOUND',
]);

function isConnectionLoss(error: unknown): boolean {
  const { code, message } = error as { code?: string; message?: string };
  if (code !== undefined) return LOST_SQLSTATES.has(code) || LOST_SYSTEM.has(code);
  return /Connection terminated|timeout exceeded when trying to connect|connection error and is not queryable/i.test(
    message ?? '',
  );
}

/** Deadlock, serialisation failure and a lock that was not granted in time: the same call may succeed next time. */
export function isContention(error: unknown): boolean {
  const code = (error as { code?: string }).code;
  return code === '40P01' || code === '40001' || code === '55P03';
}

/** The server answers, but cannot work: no disk or memory left, a damaged file, a statement that was cancelled. */
function isOutOfOrder(error: unknown): boolean {
  const code = (error as { code?: string }).code;
  return code !== undefined && (/^(53|58|XX)[0-9A-Z]{3}$/.test(code) || code === '57014');
}

function unavailable(error: unknown): AppError {
  const reason = error instanceof Error ? error.message || (error as { code?: string }).code : String(error);
  return new AppError('STORE_UNAVAILABLE', `The database cannot be used: ${reason}`, {}, { cause: error });
}

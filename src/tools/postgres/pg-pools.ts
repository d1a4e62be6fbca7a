import pg from 'pg';
import type { PgCredential } from './pg-credential.ts';
import { PG_TYPES } from './pg-types.ts';

export interface PoolSettings {
  /** Connections of one credential. */
  readonly max: number;
  readonly idleMs: number;
  readonly connectTimeoutMs: number;
}

/** What is known of a target, kept as long as its connections. */
export interface TargetNotes {
  /** The effects table with its schema, or why there is none. Absent until it was looked for. */
  effects?: { readonly table: string } | { readonly missing: string };
}

const MAX_POOLS = 32;
/** How long a cancelled statement may take to say so before its connection is cut. */
const CANCEL_GRACE_MS = 2000;

interface Entry {
  readonly pool: pg.Pool;
  readonly notes: TargetNotes;
}

/** Connections by credential: bounded in each pool and in the number of pools, closed when idle. */
export class PgPools {
  readonly #entries = new Map<string, Entry>();
  #closed = false;

  async acquire(credential: PgCredential, settings: PoolSettings, signal: AbortSignal): Promise<PgLease> {
    signal.throwIfAborted();
    const entry = this.#entry(credential, settings);
    const connecting = entry.pool.connect();
    const client = await new Promise<pg.PoolClient>((resolve, reject) => {
      const onAbort = (): void => {
        // The connection that comes too late goes back unused.
        connecting.then(
          (late) => late.release(),
          () => {},
        );
        reject(signal.reason instanceof Error ? signal.reason : new Error('aborted'));
      };
      signal.addEventListener('abort', onAbort, { once: true });
      connecting.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
    });
    return new PgLease(client, credential, entry.notes);
  }

  async close(): Promise<void> {
    this.#closed = true;
    const entries = [...this.#entries.values()];
    this.#entries.clear();
    await Promise.all(entries.map(({ pool }) => pool.end()));
  }

  #entry(credential: PgCredential, settings: PoolSettings): Entry {
    if (this.#closed) throw new Error('the tool is closed');
    const key = `${credential.id}:${settings.max}:${settings.idleMs}`;
    const entry = this.#entries.get(key) ?? this.#open(credential, settings);
    // Last in the map is last used.
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    for (const [other, { pool }] of this.#entries) {
      if (this.#entries.size <= MAX_POOLS) break;
      if (pool.totalCount > pool.idleCount || pool.waitingCount > 0) continue;
      this.#entries.delete(other);
      pool.end().catch(() => {});
    }
    return entry;
  }

  #open(credential: PgCredential, settings: PoolSettings): Entry {
    const pool = new pg.Pool({
      ...credential.config,
      types: PG_TYPES,
      application_name: 'runledger',
      keepAlive: true,
      max: settings.max,
      idleTimeoutMillis: settings.idleMs,
      connectionTimeoutMillis: settings.connectTimeoutMs,
      allowExitOnIdle: true,
    });
    // A connection that breaks says so as an event; unheard, it ends the process.
    pool.on('error', () => {});
    pool.on('connect', (client) => client.on('error', () => {}));
    return { pool, notes: {} };
  }
}

/** One connection for one call. It is given back once, cleaned of what the call left in its session, or cut. */
export class PgLease {
  readonly client: pg.PoolClient;
  readonly notes: TargetNotes;
  readonly #credential: PgCredential;
  #ended = false;

  constructor(client: pg.PoolClient, credential: PgCredential, notes: TargetNotes) {
    this.client = client;
    this.#credential = credential;
    this.notes = notes;
  }

  /** Settings, temporary tables, locks and prepared statements of one call must not reach the next, which may be another tenant's. */
  release(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.client.query('DISCARD ALL').then(
      () => this.client.release(),
      () => this.client.release(true),
    );
  }

  destroy(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.client.release(true);
  }

  /**
   * Ends what the connection is doing, through a second one, and waits for `running` to notice. A server that does not answer
   * is left alone by cutting the connection: it rolls back when it finds out.
   */
  async cancel(running: Promise<unknown>): Promise<void> {
    const settled = running.then(
      () => true,
      () => true,
    );
    const grace = (ms: number): Promise<boolean> => new Promise((resolve) => setTimeout(resolve, ms, false).unref());
    const asked = this.#askToCancel().catch(() => {});
    await Promise.race([settled, Promise.all([asked, grace(CANCEL_GRACE_MS)])]);
    // A cancellation still on its way could hit the next statement, so this connection has no next one.
    this.destroy();
    await Promise.race([settled, grace(CANCEL_GRACE_MS)]);
  }

  async #askToCancel(): Promise<void> {
    const pid = (this.client as unknown as { processID?: number }).processID;
    const other = new pg.Client({ ...this.#credential.config, connectionTimeoutMillis: CANCEL_GRACE_MS });
    other.on('error', () => {});
    await other.connect();
    try {
      await other.query('SELECT pg_cancel_backend($1)', [pid]);
    } finally {
      await other.end();
    }
  }
}

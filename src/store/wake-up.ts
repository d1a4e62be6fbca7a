import type { ListeningConnection, Postgres } from './sql/postgres.ts';

/** Followers say here which runs they watch, again and again, so that producers know for whom to notify. */
const WATCH_CHANNEL = 'runledger_watch';
const WATCH_EVERY_MS = 5000;
/** A follower that stopped saying so is forgotten. */
const WATCH_TTL_MS = 3 * WATCH_EVERY_MS;
/** Notifications of one process are coalesced: the first at once, then at most this often, by a clock that nobody sets. */
const NOTIFY_EVERY_MS = 5;
/** A NOTIFY payload is limited to 8000 bytes. */
const MAX_KEYS_PER_NOTIFY = 400;

/**
 * Wakes followers of runs across processes. NOTIFY is never part of an append, because it makes all commits of the
 * database wait for each other; it is sent afterwards, on a connection of its own, and only for runs that somebody
 * follows. Whoever follows also polls once a second, so a lost notification costs a second and nothing else.
 */
export class WakeUp {
  readonly #postgres: Postgres;
  readonly #listeners = new Map<number, Set<() => void>>();
  readonly #watched = new Map<number, number>();
  readonly #changed = new Set<number>();
  #client: Promise<ListeningConnection> | undefined;
  #sending: Promise<void> = Promise.resolve();
  #notifyTimer: NodeJS.Timeout | undefined;
  #watchTimer: NodeJS.Timeout | undefined;
  #lastNotify = 0;
  #closed = false;

  constructor(postgres: Postgres) {
    this.#postgres = postgres;
  }

  /** Tells producers of all processes that this run is followed, and calls back when it may have changed. */
  watch(runKey: number, wake: () => void): () => void {
    let wakers = this.#listeners.get(runKey);
    if (!wakers) {
      wakers = new Set();
      this.#listeners.set(runKey, wakers);
    }
    wakers.add(wake);
    this.#announce();
    this.#watchTimer ??= setInterval(() => this.#announce(), WATCH_EVERY_MS).unref();
    return () => {
      wakers.delete(wake);
      if (wakers.size === 0) this.#listeners.delete(runKey);
      if (this.#listeners.size === 0 && this.#watchTimer) {
        clearInterval(this.#watchTimer);
        this.#watchTimer = undefined;
      }
    };
  }

  /** A producer appended to this run. */
  changed(runKey: number): void {
    this.#wake(runKey);
    // The first append of a process opens the connection on which it hears of followers elsewhere.
    if (!this.#client) void this.#connect().catch(() => {});
    const until = this.#watched.get(runKey);
    if (until === undefined) return;
    if (until < performance.now()) {
      this.#watched.delete(runKey);
      return;
    }
    this.#changed.add(runKey);
    this.#notifyTimer ??= setTimeout(
      () => this.#notify(),
      Math.max(0, this.#lastNotify + NOTIFY_EVERY_MS - performance.now()),
    );
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#notifyTimer);
    clearInterval(this.#watchTimer);
    const client = await this.#client?.catch(() => undefined);
    await client?.end().catch(() => {});
  }

  #wake(runKey: number): void {
    const wakers = this.#listeners.get(runKey);
    if (wakers) for (const wake of wakers) wake();
  }

  #notify(): void {
    this.#notifyTimer = undefined;
    this.#lastNotify = performance.now();
    const keys = [...this.#changed].slice(0, MAX_KEYS_PER_NOTIFY);
    for (const key of keys) this.#changed.delete(key);
    this.#send('runledger_changed', keys);
    if (this.#changed.size > 0) this.#notifyTimer = setTimeout(() => this.#notify(), NOTIFY_EVERY_MS);
  }

  #announce(): void {
    const keys = [...this.#listeners.keys()];
    for (let i = 0; i < keys.length; i += MAX_KEYS_PER_NOTIFY)
      this.#send(WATCH_CHANNEL, keys.slice(i, i + MAX_KEYS_PER_NOTIFY));
  }

  #send(channel: string, keys: readonly number[]): void {
    if (this.#closed || keys.length === 0) return;
    // One after the other: the driver warns of a query that is sent while another one is under way.
    this.#sending = this.#sending
      .then(() => this.#connect())
      .then((client) => client.query('select pg_notify($1, $2)', [channel, keys.join(',')]))
      .then(
        () => {},
        () => {},
      );
  }

  #connect(): Promise<ListeningConnection> {
    if (this.#closed) return Promise.reject(new Error('closed'));
    this.#client ??= this.#open().catch((error: unknown) => {
      this.#client = undefined;
      throw error;
    });
    return this.#client;
  }

  async #open(): Promise<ListeningConnection> {
    const client = await this.#postgres.dedicated();
    client.on('end', () => {
      this.#client = undefined;
      // Followers poll meanwhile; the next announcement or append connects again.
    });
    client.on('notification', ({ channel, payload }) => {
      const keys = (payload ?? '').split(',').map(Number);
      if (channel === WATCH_CHANNEL) for (const key of keys) this.#watched.set(key, performance.now() + WATCH_TTL_MS);
      else for (const key of keys) this.#wake(key);
    });
    await client.query(`listen runledger_changed; listen ${WATCH_CHANNEL}`);
    // A waiting notification connection must not keep a finished process alive.
    (client as unknown as { connection?: { stream?: { unref?: () => void } } }).connection?.stream?.unref?.();
    return client;
  }
}

import type { ListeningConnection, Postgres } from './sql/postgres.ts';

const CHANNEL = 'runledger_work';
/** Notifications of one process are coalesced: the first at once, then at most this often, by a clock that nobody sets. */
const EVERY_MS = 5;
const RECONNECT_MS = 1000;

/** What workers tell each other beside the rows: that there is something to take, or that a run must stop. */
export interface WorkSignals {
  /** Units are free that this process will not take by itself. */
  work(): void;
  /** Whoever holds units of this run should stop. */
  stop(runKey: number): void;
  onWork(wake: () => void): () => void;
  onStop(stop: (runKey: number) => void): () => void;
  close(): Promise<void>;
}

/**
 * NOTIFY is never part of a commit, because it makes all commits of the database wait for each other; it goes over a
 * connection of its own afterwards. One that is lost costs the pace of the poll and nothing else.
 */
export class PostgresWorkSignals implements WorkSignals {
  readonly #postgres: Postgres;
  readonly #wakers = new Set<() => void>();
  readonly #stoppers = new Set<(runKey: number) => void>();
  readonly #stops = new Set<number>();
  #hasWork = false;
  #client: Promise<ListeningConnection> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #immediate: NodeJS.Immediate | undefined;
  #sending: Promise<void> = Promise.resolve();
  #last = 0;
  #closed = false;

  constructor(postgres: Postgres) {
    this.#postgres = postgres;
  }

  work(): void {
    this.#hasWork = true;
    this.#schedule();
  }

  stop(runKey: number): void {
    for (const stopper of this.#stoppers) stopper(runKey);
    this.#stops.add(runKey);
    this.#schedule();
  }

  onWork(wake: () => void): () => void {
    this.#wakers.add(wake);
    this.#connect().catch(() => {});
    return () => void this.#wakers.delete(wake);
  }

  onStop(stop: (runKey: number) => void): () => void {
    this.#stoppers.add(stop);
    this.#connect().catch(() => {});
    return () => void this.#stoppers.delete(stop);
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
    const client = await this.#client?.catch(() => undefined);
    await client?.end().catch(() => {});
  }

  #schedule(): void {
    if (this.#closed) return;
    if (this.#timer || this.#immediate) return;
    const wait = this.#last + EVERY_MS - performance.now();
    if (wait > 0) this.#timer = setTimeout(() => this.#send(), wait);
    // A timer takes a millisecond at the least.
    else this.#immediate = setImmediate(() => this.#send());
  }

  #send(): void {
    this.#timer = undefined;
    this.#immediate = undefined;
    this.#last = performance.now();
    const stops = [...this.#stops].slice(0, 400);
    for (const key of stops) this.#stops.delete(key);
    const text = `${this.#hasWork ? 'w' : ''};${stops.join(',')}`;
    this.#hasWork = false;
    // One after the other: the driver warns of a query that is sent while another one is under way.
    this.#sending = this.#sending
      .then(() => this.#connect())
      .then((client) => client.query({ name: 'notify', text: 'select pg_notify($1, $2)', values: [CHANNEL, text] }))
      .then(
        () => {},
        () => {},
      );
    if (this.#stops.size > 0) this.#schedule();
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
      // Whoever waits to be woken listens again when the database is back.
      if (!this.#closed && this.#wakers.size + this.#stoppers.size > 0) {
        setTimeout(() => this.#connect().catch(() => {}), RECONNECT_MS).unref();
      }
    });
    client.on('notification', ({ payload }) => {
      const [work, stops] = (payload ?? '').split(';');
      if (work) for (const wake of this.#wakers) wake();
      for (const key of stops ? stops.split(',') : []) for (const stop of this.#stoppers) stop(Number(key));
    });
    await client.query(`listen ${CHANNEL}`);
    // A waiting notification connection must not keep a finished process alive.
    (client as unknown as { connection?: { stream?: { unref?: () => void } } }).connection?.stream?.unref?.();
    return client;
  }
}

import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import type { DuckDb } from './load-duckdb.ts';

interface OpenFile {
  readonly instance: Promise<DuckDBInstance>;
  users: number;
}

/** A connection and what it holds open. */
export interface DuckHandle {
  readonly connection: DuckDBConnection;
  close(): void;
}

/** DuckDB would take four fifths of the machine; beyond the limit it spills to disk. */
const SETTINGS = { memory_limit: '1GB' };

/**
 * Databases by file. Within a process one instance serves all calls to a file, as DuckDB demands; when the last call ends it is
 * closed, because it locks the file against every other process. DuckDB's own cache makes sure that another part of the process
 * shares the instance: two of them on one file would destroy it.
 */
export class DuckDatabases {
  readonly #settings: Readonly<Record<string, string>>;
  readonly #open = new Map<string, OpenFile>();

  constructor(settings: Readonly<Record<string, string>> = {}) {
    this.#settings = { ...SETTINGS, ...settings };
  }

  /** A connection of its own; without a path a database in memory of its own, too. */
  async open(duckdb: DuckDb, path: string | undefined): Promise<DuckHandle> {
    const instance =
      path === undefined
        ? await duckdb.DuckDBInstance.create(':memory:', this.#settings)
        : await this.#acquire(duckdb, path);
    const release = (): void => {
      if (path === undefined) instance.closeSync();
      else this.#release(path, instance);
    };
    try {
      const connection = await instance.connect();
      return {
        connection,
        close: () => {
          connection.closeSync();
          release();
        },
      };
    } catch (error) {
      release();
      throw error;
    }
  }

  async #acquire(duckdb: DuckDb, path: string): Promise<DuckDBInstance> {
    let file = this.#open.get(path);
    if (!file) {
      file = { instance: duckdb.DuckDBInstance.fromCache(path, this.#settings), users: 0 };
      this.#open.set(path, file);
    }
    file.users += 1;
    try {
      return await file.instance;
    } catch (error) {
      if (this.#open.get(path) === file) this.#open.delete(path);
      throw error;
    }
  }

  #release(path: string, instance: DuckDBInstance): void {
    const file = this.#open.get(path);
    if (!file) return;
    file.users -= 1;
    if (file.users > 0) return;
    this.#open.delete(path);
    instance.closeSync();
  }
}

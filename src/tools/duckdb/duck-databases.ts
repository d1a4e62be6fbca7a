import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import type { DuckDb } from './load-duckdb.ts';

interface OpenFile {
  readonly instance: Promise<DuckDBInstance>;
  users: number;
}

/**
 * Databases by file. Within a process one instance serves all calls to a file, as DuckDB demands; when the last call ends it is
 * closed, because it locks the file against every other process. DuckDB's own cache makes sure that another part of the process
 * shares the instance: two of them on one file would destroy it.
 */
export class DuckDatabases {
  readonly #open = new Map<string, OpenFile>();

  /** Gives `work` a connection of its own. In memory every call has a database of its own, too. */
  async use<T>(
    duckdb: DuckDb,
    path: string | undefined,
    settings: Readonly<Record<string, string>>,
    work: (connection: DuckDBConnection) => Promise<T>,
  ): Promise<T> {
    const instance =
      path === undefined
        ? await duckdb.DuckDBInstance.create(':memory:', settings)
        : await this.#acquire(duckdb, path, settings);
    try {
      const connection = await instance.connect();
      try {
        return await work(connection);
      } finally {
        connection.closeSync();
      }
    } finally {
      if (path === undefined) instance.closeSync();
      else this.#release(path, instance);
    }
  }

  async #acquire(duckdb: DuckDb, path: string, settings: Readonly<Record<string, string>>): Promise<DuckDBInstance> {
    let file = this.#open.get(path);
    if (!file) {
      file = { instance: duckdb.DuckDBInstance.fromCache(path, settings), users: 0 };
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

import { DuckDatabases } from '../duckdb/duck-databases.ts';
import { PgPools, type PoolSettings } from '../postgres/pg-pools.ts';

export interface TransferToolOptions {
  /** Relative files of DuckDB are in this folder. */
  readonly folder?: string;
  readonly duckdbSettings?: Readonly<Record<string, string>>;
  /** Whether writes to Postgres leave their key in the target; true by default. */
  readonly exactWrites?: boolean;
  readonly maxConnections?: number;
}

/** What transfers share. Sources and targets have pools of their own: with one, transfers could wait for each other for ever. */
export class TransferResources {
  readonly folder: string;
  readonly exactWrites: boolean;
  readonly poolSettings: PoolSettings;
  readonly pgSources = new PgPools();
  readonly pgTargets = new PgPools();
  readonly duckDatabases: DuckDatabases;

  constructor(options: TransferToolOptions) {
    this.folder = options.folder ?? '.';
    this.exactWrites = options.exactWrites ?? true;
    this.poolSettings = { max: options.maxConnections ?? 4, idleMs: 30_000, connectTimeoutMs: 10_000 };
    this.duckDatabases = new DuckDatabases(options.duckdbSettings);
  }

  async close(): Promise<void> {
    await Promise.all([this.pgSources.close(), this.pgTargets.close()]);
  }
}

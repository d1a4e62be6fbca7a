import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { AppError } from '../contracts/errors.ts';
import { makeFolder } from '../lib/make-folder.ts';
import { PostgresStore } from '../store/postgres-store.ts';
import { Postgres, type PostgresOptions } from '../store/sql/postgres.ts';
import type { Settings } from './config.ts';

export interface LedgerHooks {
  /** Told what is done, for --verbose. */
  readonly log?: ((line: string) => void) | undefined;
  /** Told what a person should know. */
  readonly warn?: ((line: string) => void) | undefined;
  /** Bring a database of the user's up to date as well. */
  readonly migrate?: boolean;
}

interface Database {
  readonly options: PostgresOptions;
  readonly embedded: boolean;
  close(): Promise<void>;
}

export interface Ledger {
  readonly store: PostgresStore;
  close(): Promise<void>;
}

/** The database that the settings name: a server of the user's, or the folder's own, which is started. */
export async function openDatabase(settings: Settings, hooks: LedgerHooks = {}): Promise<Database> {
  const { databaseUrl: url, folder } = settings;
  const warnings = hooks.warn ? { onWarning: hooks.warn } : {};
  if (url !== undefined) return { options: { url, ...warnings }, embedded: false, close: async () => {} };
  makeOwnFolder(folder);
  const { openEmbedded } = await import('../store/embedded/open-embedded.ts');
  const server = await openEmbedded({
    folder,
    ...(hooks.log ? { log: hooks.log } : {}),
    ...(hooks.warn ? { warn: hooks.warn } : {}),
  });
  const options = { ...server.config, revive: () => server.ensureRunning(), ...warnings };
  return { options, embedded: true, close: () => server.close() };
}

/**
 * Opens the log. The folder's own database is brought up to date; one of the user's is not, because that is a decision
 * of whoever runs it: `runledger migrate`.
 */
export async function openLedger(settings: Settings, hooks: LedgerHooks = {}): Promise<Ledger> {
  const database = await openDatabase(settings, hooks);
  try {
    if (!database.embedded) await probe(database.options);
    const { onWarning, ...options } = database.options;
    // Of the folder's own database, what was brought up to date is nothing that a person has to know.
    const told = database.embedded ? hooks.log : onWarning;
    const store = await PostgresStore.open({
      ...options,
      migrate: database.embedded || hooks.migrate === true,
      ...(told ? { onWarning: told } : {}),
    });
    return {
      store,
      async close() {
        await store.close();
        await database.close();
      },
    };
  } catch (error) {
    await database.close();
    throw error;
  }
}

/** A store waits for a database that went away; one that was never there is said at once. */
async function probe(options: PostgresOptions): Promise<void> {
  const postgres = new Postgres({ ...options, retryForMs: 0 });
  try {
    await postgres.query({ text: 'select 1' });
  } finally {
    await postgres.close();
  }
}

function makeOwnFolder(folder: string): void {
  try {
    // Nothing in it belongs into a repository.
    if (makeFolder(folder)) writeFileSync(join(folder, '.gitignore'), '*\n');
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    throw new AppError('EMBEDDED_FOLDER_UNUSABLE', `The folder ${folder} cannot be made (${code}).`, { folder });
  }
}

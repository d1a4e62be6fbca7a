import { existsSync } from 'node:fs';
import { chmod, lstat, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { type EmbeddedServer, openEmbedded } from '../../src/store/embedded/open-embedded.ts';
import { PostgresStore } from '../../src/store/postgres-store.ts';

/** What the workers need to make databases of their own. */
export interface TestPostgres {
  /** A superuser's address of the maintenance database. */
  readonly url: string;
  /** The migrated database that is copied for each test file. */
  readonly template: string;
  /** Begins the name of every database of this run, so that two runs can share a server. */
  readonly prefix: string;
}

declare module 'vitest' {
  interface ProvidedContext {
    postgres: TestPostgres;
  }
}

const FOLDER = 'runledger-test-';

/**
 * Runs once before all test files: one server for the whole run. DATABASE_URL names another server; without it the embedded
 * one is started in a temporary folder. No Postgres, no tests: what is thrown here fails the run.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const external = process.env['DATABASE_URL'];
  const embedded = external ? undefined : await startEmbedded();
  const url = external ?? socketUrl(embedded!.server);
  const prefix = `rl_test_${process.pid}_${Date.now().toString(36)}`;
  const template = `${prefix}_template`;
  const stop = async (): Promise<void> => {
    if (embedded) await embedded.stop();
    else await dropDatabases(url, prefix);
  };
  try {
    await createTemplate(url, template);
  } catch (error) {
    await stop();
    throw error;
  }
  project.provide('postgres', { url, template, prefix });
  return stop;
}

/** The one place where the schema comes into the tests: what `migrate` does to the template is in every test database. */
async function createTemplate(url: string, template: string): Promise<void> {
  await query(url, `CREATE DATABASE ${template}`);
  const store = await PostgresStore.open({ url: withDatabase(url, template), migrate: true });
  await store.close();
}

interface StartedServer {
  readonly server: EmbeddedServer;
  readonly stop: () => Promise<void>;
}

async function startEmbedded(): Promise<StartedServer> {
  await sweepKilledRuns();
  const folder = await mkdtemp(join(tmpdir(), `${FOLDER}${process.pid}-`));
  // A run of root's uses another account for the server, to which a temporary folder is closed.
  await chmod(folder, 0o755);
  try {
    // Nothing here outlives the run, so nothing needs to survive a power failure. Crash tests start servers of their own.
    const settings = { fsync: 'off', full_page_writes: 'off', synchronous_commit: 'off', max_connections: '400' };
    const server = await openEmbedded({ folder, settings, warn: (line) => console.warn(line) });
    return { server, stop: () => stopAndRemove(server, folder) };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

async function stopAndRemove(server: EmbeddedServer, folder: string): Promise<void> {
  await server.close();
  await removeFolders(server, folder);
}

async function removeFolders(server: EmbeddedServer, folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  await rm(server.config.host, { recursive: true, force: true });
}

/**
 * A run that was killed could not stop its server; the next one does, so that servers do not pile up. A pid that looks dead
 * proves little (it may count in another container), so a folder goes only if it is our own account's and, after we joined
 * and left its server, nobody was there to keep that server running.
 */
async function sweepKilledRuns(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const pid = new RegExp(`^${FOLDER}(\\d+)-`).exec(name)?.[1];
    const folder = join(tmpdir(), name);
    if (pid === undefined || isAlive(Number(pid)) || (await lstat(folder)).uid !== process.getuid?.()) continue;
    try {
      const server = await openEmbedded({ folder });
      await server.close();
      if (existsSync(join(server.dataDir, 'postmaster.pid'))) continue;
      await removeFolders(server, folder);
    } catch (error) {
      console.warn(`${folder} is left from a killed test run: ${(error as Error).message}`);
    }
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function dropDatabases(url: string, prefix: string): Promise<void> {
  const rows = await query(url, `SELECT datname FROM pg_database WHERE starts_with(datname, '${prefix}')`);
  for (const { datname } of rows) await query(url, `DROP DATABASE IF EXISTS "${datname}" WITH (FORCE)`);
}

async function query(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(text)).rows;
  } finally {
    await client.end();
  }
}

function socketUrl({ config }: EmbeddedServer): string {
  return `postgresql://${config.user}@localhost:${config.port}/${config.database}?host=${encodeURIComponent(config.host)}`;
}

function withDatabase(url: string, database: string): string {
  const changed = new URL(url);
  changed.pathname = `/${database}`;
  return changed.href;
}

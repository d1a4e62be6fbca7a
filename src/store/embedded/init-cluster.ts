import { open, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '../../contracts/errors.ts';
import type { Binaries } from './binaries.ts';
import { type DataPlace, makeAccountFolder } from './data-place.ts';
import { diskFull } from './disk-full.ts';
import { type RunAs, runCommand } from './run-command.ts';

/** The superuser of the cluster; the application's database has the same name, so that psql needs no more than -h and -U. */
export const DATABASE_USER = 'runledger';

const TEMPORARY = 'pg.new-';

/** Makes the data folder: under a temporary name first, so that a folder called `pg` is always a whole one. */
export async function initCluster(place: DataPlace, binaries: Binaries): Promise<void> {
  await removeLeftovers(place);
  const temporary = await makeAccountFolder(place.home, TEMPORARY, place.runAs);
  // Synced before the rename (about 100 ms of the 500): a power failure may otherwise keep the first committed events
  // and lose catalogue files that nothing wrote to since.
  const args = [
    `--pgdata=${temporary}`,
    `--username=${DATABASE_USER}`,
    '--auth-local=trust',
    '--auth-host=reject',
    '--encoding=UTF8',
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    '--data-checksums',
    '--no-instructions',
  ];
  const result = await runCommand(binaries.initdb, args, place.runAs);
  if (result.code !== 0) {
    await removeTree(temporary, place.runAs);
    const full = diskFull(place.home, result.output);
    if (full) throw full;
    throw new AppError(
      'EMBEDDED_START_FAILED',
      `The embedded Postgres could not make its data folder in ${place.home}: ${result.output.slice(-2000)}`,
    );
  }
  try {
    await rename(temporary, place.dataDir);
  } catch (error) {
    await removeTree(temporary, place.runAs);
    const code = (error as NodeJS.ErrnoException).code;
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error;
    return;
  }
  await syncFolder(place.home);
}

/** What an initdb that was killed has left. Only the holder of the start lock comes here, so none of them is in use. */
async function removeLeftovers(place: DataPlace): Promise<void> {
  for (const name of await readdir(place.home)) {
    if (name.startsWith(TEMPORARY)) await removeTree(join(place.home, name), place.runAs);
  }
}

/** Deletes as the account that owns the files: root must not walk a tree in which somebody else can plant links. */
async function removeTree(path: string, runAs: RunAs | undefined): Promise<void> {
  if (runAs) await runCommand('/bin/rm', ['-rf', '--', path], runAs);
  // An initdb that outlived its parent may still add files; it fails at the next one, and what stays is removed next time.
  await rm(path, { recursive: true, force: true, maxRetries: 3 }).catch(() => undefined);
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

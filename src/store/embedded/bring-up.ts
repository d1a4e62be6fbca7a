import { readdir } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../../contracts/errors.ts';
import { type Package, prepareBinaries } from './binaries.ts';
import { type DataPlace, dataVersion, unusable } from './data-place.ts';
import { currentIdentity, writeIdentity } from './host-identity.ts';
import { initCluster } from './init-cluster.ts';
import { inUse, judgePidFile, readPidFile, removePidFile } from './postmaster-pid.ts';
import { canWriteIn } from './run-command.ts';
import { socketFile } from './socket-folder.ts';
import { startServer } from './start-server.ts';

export interface BringUp {
  readonly place: DataPlace;
  readonly pkg: Package;
  readonly socketDir: string;
  readonly settings: readonly string[];
  readonly copyFolders: readonly string[];
  readonly log: (line: string) => void;
}

/** How long a server that calls itself ready, or an unfinished pid file, may go without an answer before it is given up. */
const PATIENCE_MS = 5_000;

/** Gets a server to run, from whatever state the folder is in. The caller holds the start lock. */
export async function bringUp(task: BringUp, deadline: number): Promise<void> {
  const { place, log } = task;
  const patience = Math.min(Date.now() + PATIENCE_MS, deadline);
  let binaries: Awaited<ReturnType<typeof prepareBinaries>> | undefined;
  while (!(await answers(task.socketDir))) {
    if (!(await isDue(place, patience, deadline, log))) {
      await sleep(10);
      continue;
    }
    binaries ??= await prepareBinaries(task.pkg, place.runAs, task.copyFolders, log);
    const began = Date.now();
    if ((await checkedVersion(place, task.pkg)) === undefined) {
      await requireEmpty(place.dataDir);
      log(`initialising ${place.dataDir}${place.runAs ? ` as ${place.runAs.name}` : ''}`);
      await initCluster(place, binaries);
      log(`initialised in ${Date.now() - began} ms`);
    }
    if (place.runAs && !(await canWriteIn(place.dataDir, place.runAs))) {
      throw unusable(`the account \`${place.runAs.name}\`, which must run the server, cannot reach ${place.dataDir}`);
    }
    await writeIdentity(place.dataDir, await currentIdentity());
    const starting = Date.now();
    const pid = await startServer(place, binaries, task.settings, deadline);
    if (pid !== undefined) {
      log(`started Postgres ${task.pkg.version} as process ${pid} in ${Date.now() - starting} ms`);
      return;
    }
    if (Date.now() > deadline) {
      throw inUse(place.dataDir, 'processes of an earlier server do not end');
    }
    await sleep(50);
  }
}

/** Whether a start may be tried now; false means wait. */
async function isDue(
  place: DataPlace,
  patience: number,
  deadline: number,
  log: (line: string) => void,
): Promise<boolean> {
  const verdict = await judgePidFile(place.dataDir);
  if (verdict === 'free') return true;
  const file = await readPidFile(place.dataDir);
  if (verdict === 'running') {
    const stuck = Date.now() > (file?.status === 'ready' ? patience : deadline);
    if (stuck) throw inUse(place.dataDir, `process ${file?.pid} is a Postgres that holds it`);
    return false;
  }
  if (verdict === 'unfinished' && Date.now() < patience) return false;
  log(`removing the lock file that process ${file?.pid ?? '(not written)'} left in ${place.dataDir}`);
  await removePidFile(place.dataDir);
  return true;
}

/** The version of the data, if there is any; another major version cannot be opened and is not touched. */
export async function checkedVersion(place: DataPlace, pkg: Package): Promise<string | undefined> {
  const found = await dataVersion(place.dataDir);
  if (found === undefined || found === String(pkg.major)) return found;
  throw new AppError(
    'EMBEDDED_DATA_VERSION',
    `The data folder ${place.dataDir} was made by Postgres ${found}, and this installation carries Postgres ${pkg.major}. Nothing was changed. ` +
      `Install the platform package of version ${found} again and dump the data with pg_dump, or move the folder away to begin with an empty one.`,
    { dataDir: place.dataDir, found, expected: String(pkg.major) },
  );
}

async function requireEmpty(dataDir: string): Promise<void> {
  const names = await readdir(dataDir).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw unusable(`${dataDir} cannot be read`, error);
  });
  if (names.length > 0)
    throw unusable(`${dataDir} is not empty and holds no database (found ${join(dataDir, names[0]!)})`);
}

/** Whether somebody listens on the socket; says nothing about being ready. */
function answers(socketDir: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(socketFile(socketDir));
    const settle = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.once('connect', () => settle(true));
    socket.once('error', (error: NodeJS.ErrnoException) => settle(error.code === 'EAGAIN'));
  });
}

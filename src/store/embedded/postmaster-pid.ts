import { readFile, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '../../contracts/errors.ts';
import { currentIdentity, isLocal, readIdentity } from './host-identity.ts';
import { processState } from './process-state.ts';

/** Postgres's own lock file. A server that was killed leaves it behind; while it is being written it can be empty. */
export interface PidFile {
  readonly pid: number | undefined;
  /** starting, stopping, ready or standby; empty in the first moments. */
  readonly status: string;
}

export function readPidFile(dataDir: string): Promise<PidFile | undefined> {
  return readLockFile(pidPath(dataDir));
}

/** Both lock files of a server, in the data folder and beside the socket, have this form. */
export async function readLockFile(path: string): Promise<PidFile | undefined> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  const lines = text.split('\n');
  const pid = Number.parseInt(lines[0] ?? '', 10);
  return { pid: Number.isSafeInteger(pid) && pid > 0 ? pid : undefined, status: (lines[7] ?? '').trim() };
}

function pidPath(dataDir: string): string {
  return join(dataDir, 'postmaster.pid');
}

export type Verdict =
  /** Nothing in the way, or a file whose process is gone: Postgres removes that itself, and checks for orphans first. */
  | 'free'
  /** A server is starting or stopping, or is there without its socket. */
  | 'running'
  /** Not fully written. */
  | 'unfinished'
  /** Left behind, and its pid now belongs to something else, so Postgres would refuse: remove it. */
  | 'stale';

/**
 * Judges the pid file of a data folder whose socket does not answer. Throws where it cannot be known that no server runs:
 * two servers on one data folder destroy it, so everything short of proof is refused.
 */
export async function judgePidFile(dataDir: string): Promise<Verdict> {
  const file = await readPidFile(dataDir);
  if (file === undefined) return 'free';
  const doubt = await whyNotOurs(dataDir);
  if (doubt !== undefined) throw inUse(dataDir, `a server was started there ${doubt}`);
  if (file.pid === undefined) return 'unfinished';
  const state = await processState(file.pid);
  if (state === 'postgres') return 'running';
  return state === 'gone' && !isSignalable(file.pid) ? 'free' : 'stale';
}

/** Undefined if the pid in the file can be looked up here: same machine, same boot, same pid namespace. */
export async function whyNotOurs(dataDir: string): Promise<string | undefined> {
  const [noted, ours] = [await readIdentity(dataDir), await currentIdentity()];
  if (noted === undefined) return 'by another program';
  if (noted.host !== ours.host) return `on another machine (${noted.host.split('/')[0]})`;
  if (noted.bootId !== ours.bootId) {
    // The machine was restarted since, which no server survives; unless it is another machine of the same name that shares the folder.
    return (await isLocal(dataDir))
      ? undefined
      : 'before this machine was restarted, or on another machine of the same name';
  }
  if (noted.pidNamespace !== ours.pidNamespace) return 'in another container';
  return undefined;
}

/** As Postgres asks: true also for a zombie. */
function isSignalable(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

export function removePidFile(dataDir: string): Promise<void> {
  return unlink(pidPath(dataDir)).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
}

export function inUse(dataDir: string, what: string): AppError {
  return new AppError(
    'EMBEDDED_IN_USE',
    `The data folder ${dataDir} may be in use: ${what}, and it does not answer here. Stop that server; if you are certain that none runs, remove ${pidPath(dataDir)} and try again.`,
    { dataDir },
  );
}

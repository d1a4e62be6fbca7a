import { readlink } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { inUse, readLockFile, readPidFile, whyNotOurs } from './postmaster-pid.ts';
import { processState } from './process-state.ts';
import { socketFile } from './socket-folder.ts';

/**
 * Stops the server of a data folder and waits until it has gone, so that whoever called can move or delete the folder.
 * The caller is the last holder and keeps everyone else out, so the pid file is that of the live server.
 */
export async function stopServer(dataDir: string, timeoutMs: number, warn: (line: string) => void): Promise<void> {
  const pid = (await readPidFile(dataDir))?.pid;
  if (pid === undefined) return;
  // A server that was joined from another container has a pid that means a different process here.
  if ((await whyNotOurs(dataDir)) !== undefined || (await processState(pid)) !== 'postgres') {
    warn(`process ${pid} was started elsewhere and is left running`);
    return;
  }
  // SIGINT is Postgres's fast shutdown: connections are ended, a checkpoint is written.
  process.kill(pid, 'SIGINT');
  const deadline = Date.now() + timeoutMs;
  while ((await readPidFile(dataDir))?.pid === pid && (await processState(pid)) === 'postgres') {
    if (Date.now() > deadline) {
      warn(`process ${pid} is still stopping after ${timeoutMs} ms`);
      return;
    }
    await sleep(5);
  }
}

/**
 * The pid of a server that answers for a data folder which was deleted or replaced under it, undefined if all is well. It
 * would take events and lose them: its files have no names any more. (Postgres notices by itself, but only once a minute.)
 */
export async function orphanedServer(dataDir: string, socketDir: string): Promise<number | undefined> {
  const serving = (await readLockFile(`${socketFile(socketDir)}.lock`))?.pid;
  if (serving === undefined || (await readPidFile(dataDir))?.pid === serving) return undefined;
  return serving;
}

/**
 * Ends such a server at once; there is nothing left that it could write in order. Only one whose working folder is ours and
 * deleted: a data folder that was moved away is alive, and a shared /tmp can show the server of another container.
 */
export async function stopOrphan(pid: number, dataDir: string, deadline: number): Promise<void> {
  if ((await processState(pid)) !== 'postgres') return;
  if ((await readlink(`/proc/${pid}/cwd`).catch(() => '')) !== `${dataDir} (deleted)`) {
    throw inUse(dataDir, `process ${pid} answers for it, but serves another folder`);
  }
  process.kill(pid, 'SIGQUIT');
  while ((await processState(pid)) === 'postgres' && Date.now() < deadline) await sleep(5);
}

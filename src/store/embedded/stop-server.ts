import { setTimeout as sleep } from 'node:timers/promises';
import { readPidFile, whyNotOurs } from './postmaster-pid.ts';
import { processState } from './process-state.ts';

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

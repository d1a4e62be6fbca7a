import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../../contracts/errors.ts';
import { type BringUp, bringUp } from './bring-up.ts';
import { type Control, classifyJoinFailure, end, joinHolders, nameDatabase } from './control-connection.ts';
import { readPidFile } from './postmaster-pid.ts';
import { withStartLock } from './start-lock.ts';
import { orphanedServer, stopOrphan } from './stop-server.ts';

/** Tries until a server is joined: one that is stopping is waited for, one that is absent is started. */
export async function joinOrStart(task: BringUp, deadline: number): Promise<Control> {
  for (;;) {
    const joined = await tryJoin(task);
    const failure = joined instanceof Error ? classifyJoinFailure(joined) : undefined;
    if (failure === undefined || failure === 'fatal') {
      // Looked at after joining, since from then on nobody stops or restarts the server in between. A server that has lost
      // its files may as well refuse, with any error.
      const orphan = await orphanedServer(task.place.dataDir, task.socketDir);
      if (orphan !== undefined) {
        if (!(joined instanceof Error)) await end(joined.client);
        task.log(`process ${orphan} answers, but the data folder it serves is gone: stopping it`);
        await underLock(task, deadline, () => stopOrphan(orphan, task.place.dataDir, deadline));
        continue;
      }
    }
    if (!(joined instanceof Error)) {
      if (!(await isStopping(task))) return joined;
      await end(joined.client);
      await sleep(20);
      continue;
    }
    if (failure === 'fatal') throw unusableServer(task, 'it refused the connection', joined);
    if (Date.now() > deadline) throw unusableServer(task, 'it did not answer in time', joined);
    if (failure === 'absent') await underLock(task, deadline, () => bringUp(task, deadline));
    else if (failure === 'unnamed') await nameDatabase(task.socketDir).catch(() => sleep(20));
    else await sleep(20);
  }
}

/**
 * A leaver's exclusive lock goes when the server that it stops ends its connection, and one who waits for that lock may get it
 * in the moment before its own connection is ended. By then Postgres has noted in its lock file that it is stopping.
 */
async function isStopping(task: BringUp): Promise<boolean> {
  return (await readPidFile(task.place.dataDir))?.status !== 'ready';
}

function tryJoin(task: BringUp): Promise<Control | Error> {
  return joinHolders(task.socketDir).catch((error: unknown) => error as Error);
}

function underLock(task: BringUp, deadline: number, body: () => Promise<void>): Promise<void> {
  return withStartLock(task.socketDir, task.place.runAs, deadline, body);
}

function unusableServer(task: BringUp, reason: string, cause: Error): AppError {
  const { dataDir, logFile } = task.place;
  return new AppError(
    'EMBEDDED_START_FAILED',
    `The embedded Postgres of ${dataDir} cannot be used: ${reason} (${cause.message}). Its log is ${logFile}.`,
    { logFile },
    { cause },
  );
}

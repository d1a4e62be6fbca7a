import { randomUUID } from 'node:crypto';
import { chown, mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { AppError } from '../../contracts/errors.ts';
import type { RunAs } from './run-command.ts';

/**
 * Lets one process at a time initialise, repair or start. Node has no file locks, and a lock file with a pid cannot be
 * taken over safely from a killed owner. Here the owner listens on a unix socket inside the lock, so the kernel itself says
 * whether it lives, and waiting is waiting for a connection to close.
 *
 * A lock is a folder `lock.N` around the socket, put in place by one rename, which fails if that number is taken. The
 * highest number is the lock; if its owner is dead, whoever renames to N+1 and still sees no higher number has it. A dead
 * highest folder stays, since numbers that fall could make two processes believe that they have the highest.
 */
export async function withStartLock<T>(
  folder: string,
  runAs: RunAs | undefined,
  deadline: number,
  body: () => Promise<T>,
): Promise<T> {
  for (;;) {
    const highest = Math.max(0, ...(await lockNumbers(folder)));
    if (highest > 0 && (await waitWhileAlive(join(lockPath(folder, highest), 's'), deadline))) continue;
    const claim = await makeClaim(folder, runAs);
    try {
      // A lost claim is never used again: the winner may have removed its folder already.
      if (!(await claim.moveTo(highest + 1))) continue;
      await clean(folder, highest + 1);
      return await body();
    } finally {
      await claim.release();
    }
  }
}

interface Claim {
  /** True if this is the lock now: the number was free, and there is no higher one. */
  moveTo(number: number): Promise<boolean>;
  /** Lets go of everybody who waits. */
  release(): Promise<void>;
}

async function makeClaim(folder: string, runAs: RunAs | undefined): Promise<Claim> {
  const own = join(folder, `new.${randomUUID().slice(0, 8)}`);
  const waiting = new Set<Socket>();
  const server = createServer((socket) => {
    waiting.add(socket);
    socket.on('error', () => undefined).once('close', () => waiting.delete(socket));
    socket.write(String(process.pid));
  });
  await mkdir(own, { mode: 0o700 });
  await listen(server, join(own, 's'));
  if (runAs) {
    // The account may start the server itself later, without root, and must then be able to look at this lock.
    await chown(join(own, 's'), runAs.uid, runAs.gid);
    await chown(own, runAs.uid, runAs.gid);
  }
  return {
    async moveTo(number) {
      try {
        await rename(own, lockPath(folder, number));
      } catch (error) {
        const code = (error as NodeJS.ErrnoException).code;
        if (code === 'ENOTEMPTY' || code === 'EEXIST') return false;
        throw error;
      }
      // An old view of the folder can lead to a number below the true lock.
      return Math.max(0, ...(await lockNumbers(folder))) === number;
    },
    async release() {
      server.close();
      for (const socket of waiting) socket.destroy();
      await rm(own, { recursive: true, force: true });
    },
  };
}

/** False at once if nobody listens; true when the owner that was found alive has gone. */
function waitWhileAlive(path: string, deadline: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    let owner = '';
    let connected = false;
    const socket = connect(path);
    const timer = setTimeout(
      () => {
        socket.destroy();
        reject(
          new AppError(
            'EMBEDDED_START_FAILED',
            `Process ${owner || '(unknown)'} is starting the embedded Postgres of this folder and did not finish in time. If it hangs, end it and try again.`,
          ),
        );
      },
      Math.max(1, deadline - Date.now()),
    );
    const settle = (alive: boolean): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(alive);
    };
    socket.on('connect', () => {
      connected = true;
    });
    socket.on('data', (chunk) => {
      owner += chunk.toString('latin1');
    });
    socket.on('error', (error: NodeJS.ErrnoException) => {
      // A full queue of waiters: somebody is alive, but there is nothing to wait on.
      if (error.code === 'EAGAIN') setTimeout(() => settle(true), 20);
      else settle(connected);
    });
    socket.on('end', () => settle(true));
  });
}

/** Locks below the highest are of no use any more; a folder of a process that was killed before it had its turn is told by its age. */
async function clean(folder: string, taken: number): Promise<void> {
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    const old = name.startsWith('lock.') && Number(name.slice(5)) < taken;
    const abandoned =
      name.startsWith('new.') &&
      Date.now() - ((await stat(path).catch(() => undefined))?.mtimeMs ?? Infinity) > 600_000;
    // A claim with an old view may move onto a number while it is being removed; the next holder removes that one.
    if (old || abandoned) await rm(path, { recursive: true, force: true }).catch(() => undefined);
  }
}

async function lockNumbers(folder: string): Promise<number[]> {
  const names = await readdir(folder);
  return names.filter((name) => /^lock\.\d+$/.test(name)).map((name) => Number(name.slice(5)));
}

function lockPath(folder: string, number: number): string {
  return join(folder, `lock.${number}`);
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, resolve);
  });
}

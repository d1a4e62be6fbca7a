import { spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../../contracts/errors.ts';
import type { Binaries } from './binaries.ts';
import type { DataPlace } from './data-place.ts';
import { diskFull } from './disk-full.ts';
import { readPidFile } from './postmaster-pid.ts';
import { CHILD_ENV } from './run-command.ts';

const LOG_LIMIT = 4 * 1024 * 1024;
const LOG_KEEP = 256 * 1024;

/** Messages after which a later try can succeed: another server won the start, or processes of a killed one are still ending. */
const PASSING = /lock file "[^"]*" (already exists|is empty)|pre-existing shared memory block/;

/**
 * Starts the server and waits until it takes connections. Returns its pid, or undefined if it gave way to something that
 * passes, so that the caller looks again.
 */
export async function startServer(
  place: DataPlace,
  binaries: Binaries,
  settings: readonly string[],
  deadline: number,
): Promise<number | undefined> {
  const log = await openLog(place);
  try {
    const before = (await log.stat()).size;
    // A session of its own: Ctrl-C in the terminal that happened to start the server must not stop it for everybody.
    const child = spawn(binaries.postgres, ['-D', place.dataDir, ...settings], {
      cwd: '/',
      env: CHILD_ENV,
      detached: true,
      stdio: ['ignore', log.fd, log.fd],
      ...(place.runAs && { uid: place.runAs.uid, gid: place.runAs.gid }),
    });
    let ended: string | undefined;
    child.once('error', (error) => {
      ended = error.message;
    });
    child.once('exit', (code, signal) => {
      ended = `it ended with ${signal ?? `exit code ${code}`}`;
    });
    child.unref();
    while (ended === undefined) {
      const file = await readPidFile(place.dataDir);
      if (file?.pid === child.pid && file?.status === 'ready') return child.pid;
      if (Date.now() > deadline) {
        // Replaying a long log takes its time and must not be cut short: the server is left at work.
        throw failed(place, 'it is still starting, perhaps recovering after a crash; try again', '');
      }
      await sleep(4);
    }
    const said = await readFrom(log, before);
    if (PASSING.test(said)) return undefined;
    throw failed(place, ended, said);
  } finally {
    await log.close();
  }
}

/** Opened here, not by the server: its account may not be allowed to write beside the data folder. */
async function openLog(place: DataPlace): Promise<FileHandle> {
  // No link is followed: root would append to whatever somebody pointed it at.
  const flags = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW;
  const log = await open(place.logFile, flags, 0o600);
  if (place.runAs) await log.chown(place.runAs.uid, place.runAs.gid);
  return log;
}

/** Keeps the log small. Writers that append carry on at the new end, so it can be cut under a running server. */
export async function trimLog(place: DataPlace): Promise<void> {
  const size = (await stat(place.logFile).catch(() => undefined))?.size ?? 0;
  if (size <= LOG_LIMIT) return;
  const log = await openLog(place);
  try {
    const tail = await readFrom(log, size - LOG_KEEP);
    await log.truncate(0);
    await log.writeFile(`(older lines were removed)\n${tail.slice(tail.indexOf('\n') + 1)}`);
  } finally {
    await log.close();
  }
}

async function readFrom(file: FileHandle, start: number): Promise<string> {
  const length = Math.max(0, (await file.stat()).size - start);
  const { buffer, bytesRead } = await file.read({ buffer: Buffer.alloc(length), position: start });
  return buffer.toString('utf8', 0, bytesRead);
}

function failed(place: DataPlace, why: string, said: string): AppError {
  const full = diskFull(place.home, said);
  if (full) return full;
  const tail = said.trim().split('\n').slice(-6).join('\n');
  return new AppError(
    'EMBEDDED_START_FAILED',
    `The embedded Postgres of ${place.dataDir} did not start: ${why}. Its log is ${place.logFile}.${tail && `\n${tail}`}`,
    { logFile: place.logFile },
  );
}

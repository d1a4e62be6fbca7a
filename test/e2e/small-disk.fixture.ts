import { execFileSync } from 'node:child_process';
import { chmodSync, closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface SmallDisk {
  readonly folder: string;
  /** How the disk is made small; printed, so that everybody sees what was proven. */
  readonly means: 'a small tmpfs' | 'a limit of the size of files';
  /** What a command has to begin with so that the disk is small for it. */
  readonly prefix: readonly string[];
  /** Makes room. */
  grow(): void;
  /** Leaves no room at all. Only a disk of its own can be filled. */
  fill(): void;
  /** Takes away what filled it. */
  empty(): void;
  remove(): void;
}

/** A folder with little room: a tmpfs where this account may mount one, else a limit that Postgres and Node take for a full disk. */
export function smallDisk(megabytes: number): SmallDisk {
  const folder = mkdtempSync(join(tmpdir(), 'runledger-disk-'));
  chmodSync(folder, 0o755);
  const isMounted = mounts(folder, megabytes);
  const disk = join(folder, 'disk');
  mkdirSync(disk, { recursive: true });
  const home = isMounted ? folder : disk;
  const filler = join(home, 'fill');
  let prefix: readonly string[] = isMounted ? [] : ['bash', '-c', `ulimit -f ${megabytes * 256}; exec "$0" "$@"`];
  return {
    folder: home,
    means: isMounted ? 'a small tmpfs' : 'a limit of the size of files',
    get prefix() {
      return prefix;
    },
    grow() {
      if (isMounted) execFileSync('mount', ['-o', 'remount,size=400m', folder]);
      prefix = [];
    },
    fill() {
      const file = openSync(filler, 'w');
      const block = Buffer.alloc(1024 * 1024);
      try {
        for (;;) writeSync(file, block);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      } finally {
        closeSync(file);
      }
    },
    empty: () => rmSync(filler, { force: true }),
    remove() {
      if (isMounted) execFileSync('umount', ['--lazy', folder]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function mounts(folder: string, megabytes: number): boolean {
  if (process.getuid?.() !== 0 || process.platform !== 'linux') return false;
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m,mode=755`, 'tmpfs', folder], { stdio: 'ignore' });
    return true;
  } catch {
    // Root of a container that may not mount.
    return false;
  }
}

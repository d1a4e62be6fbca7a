import { lchown, lstat, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type DataPlace, pathHash, unusable } from './data-place.ts';

/** The port only names the socket file; nothing listens on it. */
export const SOCKET_PORT = 5432;

export function socketFile(socketDir: string): string {
  return join(socketDir, `.s.PGSQL.${SOCKET_PORT}`);
}

/**
 * The 0700 folder of the server's socket. A socket path may have 107 bytes (103 on macOS), less than many project paths, so
 * the folder is in /tmp under a hash of the data folder: short, and the same for every process. Permission on this folder is
 * all that guards the server. Anyone may have made a folder of that name first; such a folder is passed over, not trusted.
 */
export async function openSocketFolder(place: DataPlace): Promise<string> {
  const uid = process.getuid?.();
  const owner = place.runAs?.uid ?? uid;
  for (let attempt = 0; attempt < 4; attempt++) {
    const path = `/tmp/runledger-${pathHash(place.dataDir)}${attempt === 0 ? '' : `-${attempt}`}`;
    await mkdir(path, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw unusable(`the socket folder ${path} cannot be made`, error);
    });
    const found = await lstat(path);
    if (!found.isDirectory() || (found.mode & 0o077) !== 0 || (found.uid !== owner && found.uid !== uid)) continue;
    if (place.runAs && found.uid !== owner) await lchown(path, place.runAs.uid, place.runAs.gid);
    return path;
  }
  throw unusable(`/tmp/runledger-${pathHash(place.dataDir)} and its alternatives belong to somebody else`);
}

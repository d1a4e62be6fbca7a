import { mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Makes a folder and those above it; true if it was not there. Node's own recursive way never ends where the system denies that
 * a folder's parent exists although it does, as it does below /proc.
 */
export function makeFolder(path: string): boolean {
  const missing: string[] = [];
  for (let at = path; ; at = dirname(at)) {
    if (statSync(at, { throwIfNoEntry: false })?.isDirectory()) break;
    missing.unshift(at);
    if (dirname(at) === at) break;
  }
  for (const folder of missing) {
    try {
      mkdirSync(folder);
    } catch (error) {
      // Somebody else was faster.
      const isThere = statSync(folder, { throwIfNoEntry: false })?.isDirectory();
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || !isThere) throw error;
    }
  }
  return missing.length > 0;
}

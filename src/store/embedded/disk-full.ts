import { AppError } from '../../contracts/errors.ts';

/** An error of its own when what a command or a log said is that there is no room left. */
export function diskFull(folder: string, said: string): AppError | undefined {
  const line = /.*(?:No space left on device|File too large|Disk quota exceeded).*/.exec(said)?.[0];
  if (line === undefined) return undefined;
  return new AppError('DISK_FULL', `The embedded Postgres has no room in ${folder}: ${line.trim().slice(-300)}`, {
    folder,
  });
}

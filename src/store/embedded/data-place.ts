import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { access, chmod, lchown, lstat, mkdir, mkdtemp, readFile, realpath, rmdir, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { AppError } from '../../contracts/errors.ts';
import { chooseAccount } from './account.ts';
import { canWriteIn, type RunAs, runCommand } from './run-command.ts';

/** Everything that follows from the folder: where the files are and who runs the server. */
export interface DataPlace {
  /** The folder that holds the data folder, the log and temporary folders. */
  readonly home: string;
  readonly dataDir: string;
  readonly logFile: string;
  readonly runAs: RunAs | undefined;
}

/** Where root keeps what the server's account must reach, best first. */
export const SYSTEM_FOLDERS = ['/var/lib/runledger', '/var/tmp/runledger'];

export interface PlaceOptions {
  readonly folder: string;
  readonly systemFolders: readonly string[];
  readonly warn: (line: string) => void;
}

/**
 * Finds the data folder, or decides where it will be. Data that exists always wins over a better place: starting with an
 * empty database because a permission changed would look like losing everything.
 */
export async function findPlace(options: PlaceOptions): Promise<DataPlace> {
  const wanted = resolve(options.folder);
  const isRoot = process.getuid?.() === 0;
  let folder: string;
  try {
    if ((await mkdir(wanted, { recursive: true })) !== undefined && isRoot) await chmod(wanted, 0o755);
    folder = await realpath(wanted);
  } catch (cause) {
    if (!isRoot) throw unusable(`${wanted} cannot be made`, cause);
    return fallbackPlace(wanted, options, `${wanted} cannot be made (${(cause as Error).message})`);
  }
  return isRoot ? placeForRoot(folder, options) : placeForUser(folder);
}

async function placeForUser(folder: string): Promise<DataPlace> {
  await chooseAccount([]);
  const place = placeIn(folder, undefined);
  const owner = await stat(place.dataDir).catch(() => undefined);
  if (owner !== undefined && owner.uid !== process.getuid?.()) {
    throw unusable(`${place.dataDir} belongs to uid ${owner.uid}; use that account or root`);
  }
  if (owner === undefined) {
    await access(folder, constants.W_OK | constants.X_OK).catch((cause: unknown) => {
      throw unusable(`${folder} cannot be written by this account`, cause);
    });
  }
  return place;
}

async function placeForRoot(folder: string, options: PlaceOptions): Promise<DataPlace> {
  const { runAs, warning } = await chooseAccount([join(folder, 'pg'), folder]);
  if (warning) options.warn(warning);
  const place = placeIn(folder, runAs);
  if ((await dataVersion(place.dataDir)) !== undefined || runAs === undefined) return place;
  const reason = await whyUnreachable(folder, runAs);
  if (reason === undefined && !(await hasFallbackData(folder, options))) return place;
  return fallbackPlace(folder, options, reason ?? `earlier data of ${folder} is there`);
}

/** Tries with a real folder, because only that shows closed parents, ACLs and read-only mounts alike. */
async function whyUnreachable(folder: string, runAs: RunAs): Promise<string | undefined> {
  let probe: string;
  try {
    probe = await makeAccountFolder(folder, 'pg.probe-', runAs);
  } catch (error) {
    return `${folder} cannot be written (${(error as Error).message})`;
  }
  try {
    if (await canWriteIn(probe, runAs)) return undefined;
    return `the account \`${runAs.name}\`, which runs the server for root, cannot reach ${folder}`;
  } finally {
    await rmdir(probe).catch(() => undefined);
  }
}

async function hasFallbackData(folder: string, options: PlaceOptions): Promise<boolean> {
  for (const base of options.systemFolders) {
    if ((await dataVersion(join(base, pathHash(folder), 'pg'))) !== undefined) return true;
  }
  return false;
}

/** A folder of root's that the account can reach, named by the folder it stands in for, so that every process finds the same. */
async function fallbackPlace(folder: string, options: PlaceOptions, reason: string): Promise<DataPlace> {
  const bases = options.systemFolders;
  const problems: string[] = [];
  // A base that holds the data already goes first; the order of the rest is the order of preference.
  const homes = bases.map((base) => join(base, pathHash(folder)));
  const existing = await Promise.all(homes.map((home) => dataVersion(join(home, 'pg'))));
  homes.sort(
    (a, b) => Number(existing[homes.indexOf(b)] !== undefined) - Number(existing[homes.indexOf(a)] !== undefined),
  );
  for (const home of homes) {
    const { runAs, warning } = await chooseAccount([join(home, 'pg'), home]);
    try {
      const base = resolve(home, '..');
      if ((await mkdir(base, { recursive: true })) !== undefined) await chmod(base, 0o755);
      await mkdir(home, { mode: 0o700 }).catch(ignoreExisting);
      const found = await lstat(home);
      if (!found.isDirectory() || (found.uid !== 0 && found.uid !== runAs?.uid))
        throw new Error('it belongs to somebody else');
      if (runAs && found.uid !== runAs.uid) await lchown(home, runAs.uid, runAs.gid);
      if (runAs && !(await canWriteIn(home, runAs))) throw new Error(`\`${runAs.name}\` cannot reach it`);
      if (warning) options.warn(warning);
      options.warn(`${reason}: the embedded database is in ${join(home, 'pg')} instead`);
      return placeIn(await realpath(home), runAs);
    } catch (error) {
      problems.push(`${home}: ${(error as Error).message}`);
    }
  }
  throw unusable(`${reason}, and no other folder can be used (${problems.join('; ')})`);
}

function placeIn(home: string, runAs: RunAs | undefined): DataPlace {
  return { home, dataDir: join(home, 'pg'), logFile: join(home, 'pg.log'), runAs };
}

/** The major version that wrote a data folder; undefined means that there is no data. */
export async function dataVersion(dataDir: string): Promise<string | undefined> {
  try {
    return (await readFile(join(dataDir, 'PG_VERSION'), 'utf8')).trim();
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw unusable(`${dataDir} cannot be read`, error);
  }
}

/**
 * Makes an empty 0700 folder that belongs to the account. In a folder of the account's own it is made by the account itself:
 * root never changes an owner where somebody else could put a link in the way.
 */
export async function makeAccountFolder(parent: string, prefix: string, runAs: RunAs | undefined): Promise<string> {
  if (runAs !== undefined && (await stat(parent)).uid === runAs.uid) {
    const path = join(parent, `${prefix}${crypto.randomUUID().slice(0, 8)}`);
    const made = await runCommand('/bin/mkdir', ['-m', '700', path], runAs);
    if (made.code !== 0) throw new Error(made.output);
    return path;
  }
  const path = await mkdtemp(join(parent, prefix));
  if (runAs) await lchown(path, runAs.uid, runAs.gid);
  return path;
}

/** Stands for a path where the path itself would be too long: socket folders and folders of root's. */
export function pathHash(path: string): string {
  return createHash('sha256').update(path).digest('hex').slice(0, 16);
}

export function unusable(what: string, cause?: unknown): AppError {
  return new AppError(
    'EMBEDDED_FOLDER_UNUSABLE',
    `The embedded Postgres cannot use its folder: ${what}. Choose another folder, or set DATABASE_URL to a Postgres of your own.`,
    {},
    { cause },
  );
}

function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error;
}

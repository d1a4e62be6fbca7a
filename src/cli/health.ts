import { execFile } from 'node:child_process';
import { access, chmod, constants, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { AppError, ERRORS } from '../contracts/errors.ts';
import type { Context } from './context.ts';
import { databaseName } from './database-name.ts';
import { nextCommand, shellWord } from './next-command.ts';

/** What one look found. `fix` mends it and says how; without one a person has to act. */
export interface Finding {
  readonly check: string;
  readonly ok: boolean;
  readonly says: string;
  readonly cure?: string;
  readonly fix?: () => Promise<string>;
}

type Check = (context: Context) => Promise<Finding[]>;

/** Below this a database may stop in the middle of its work. */
const LEAST_FREE_BYTES = 200 * 1024 * 1024;

export async function node(): Promise<Finding[]> {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const ok = major > 20 || (major === 20 && minor >= 19);
  return [{ check: 'node', ok, says: process.version, ...(ok ? {} : { cure: 'Install Node 20.19 or later.' }) }];
}

export async function configuration({ session }: Context): Promise<Finding[]> {
  const { configFile, tools } = await session.settings();
  const own = tools.length === 0 ? '' : `, tools: ${tools.map(({ kind }) => kind).join(', ')}`;
  return [{ check: 'configuration', ok: true, says: `${configFile ?? 'no file, defaults'}${own}` }];
}

/** The file of secrets, if there is one: what would stop the first task that needs a secret. */
export async function secrets({ session }: Context): Promise<Finding[]> {
  const { secretsFile: file, scope } = await session.settings();
  if (file === undefined) return [];
  const { FileSecretsProvider } = await import('../tools/secrets/file-provider.ts');
  try {
    await new FileSecretsProvider(file).resolve([], scope);
    return [{ check: 'secrets', ok: true, says: file }];
  } catch (error) {
    const { mode } = await stat(file).catch(() => ({ mode: 0 }));
    const isOpen = process.platform !== 'win32' && (mode & 0o077) !== 0;
    const says = isOpen ? `${file} can be read by others (mode ${(mode & 0o777).toString(8)})` : messageOf(error);
    if (!isOpen) return [{ check: 'secrets', ok: false, says, cure: ERRORS.CONFIG_INVALID.cure }];
    const close = async (): Promise<string> => {
      await chmod(file, 0o600);
      return 'only you can read it now; whoever could read it before may know its secrets';
    };
    return [{ check: 'secrets', ok: false, says, cure: `chmod 600 ${shellWord(file)}`, fix: close }];
  }
}

/** The folder of the embedded database and of large results. */
export async function folder({ session }: Context): Promise<Finding[]> {
  const { folder: path } = await session.settings();
  const place = await firstThatIsThere(path);
  const findings: Finding[] = [];
  try {
    await access(place, constants.W_OK | constants.X_OK);
  } catch {
    findings.push({
      check: 'folder',
      ok: false,
      says: `${place} cannot be written`,
      cure: ERRORS.FILE_NOT_WRITABLE.cure,
    });
  }
  const { bavail, bsize } = await statfs(place);
  const free = bavail * bsize;
  const says = `${path}, ${Math.floor(free / 1024 / 1024)} MB free`;
  const ok = free >= LEAST_FREE_BYTES;
  findings.push({ check: 'folder', ok, says, ...(ok ? {} : { cure: ERRORS.DISK_FULL.cure }) });
  return findings;
}

async function firstThatIsThere(path: string): Promise<string> {
  for (let place = path; ; place = dirname(place)) {
    const found = await access(place).then(
      () => true,
      () => false,
    );
    if (found || dirname(place) === place) return place;
  }
}

export async function binaries({ session }: Context): Promise<Finding[]> {
  if ((await session.settings()).databaseUrl !== undefined) return [];
  const { findPackage, missingSymlinks, restoreSymlinks } = await import('../store/embedded/binaries.ts');
  const { root, version } = await findPackage();
  const native = join(root, 'native');
  const missing = await missingSymlinks(native);
  if (missing.length === 0) return [{ check: 'binaries', ok: true, says: `Postgres ${version} in ${root}` }];
  return [
    {
      check: 'binaries',
      ok: false,
      says: `${missing.length} library links are missing in ${native}`,
      cure: 'runledger doctor --fix',
      fix: async () => `restored ${await restoreSymlinks(native)} library links`,
    },
  ];
}

export async function database(context: Context): Promise<Finding[]> {
  const { session } = context;
  const mended: string[] = [];
  // What opening mends by itself, such as the lock file that a killed server left, is worth a word here.
  const log = (line: string): void => void (/removing|restored|stopping it/.test(line) && mended.push(line));
  session.openWith({ log });
  try {
    const store = await session.store();
    const [latest] = await store.listRuns({ limit: 1 });
    const where = databaseName(await session.settings());
    const runs = latest ? `latest run ${latest.runId.slice(0, 8)}` : 'no runs yet';
    const also = mended.length === 0 ? '' : `; ${mended.join('; ')}`;
    return [{ check: 'database', ok: true, says: `${where}, schema up to date, ${runs}${also}` }];
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'STORE_SCHEMA_TOO_OLD') throw error;
    return [
      {
        check: 'database',
        ok: false,
        says: `${error.code}: ${error.message}`,
        cure: 'runledger migrate',
        fix: async () => {
          session.openWith({ migrate: true });
          await session.store();
          return `applied ${String(error.details['missing'])}`;
        },
      },
    ];
  }
}

export async function alerts({ args, session }: Context): Promise<Finding[]> {
  const store = await session.store();
  const day = new Date(Date.now() - 24 * 3600 * 1000).toISOString();
  const recent = (await store.listAlerts({ limit: 1000 })).filter(({ raisedAt }) => raisedAt > day);
  const counts = new Map<string, number>();
  for (const { code } of recent) counts.set(code, (counts.get(code) ?? 0) + 1);
  if (counts.size === 0) return [{ check: 'alerts', ok: true, says: 'none in the last 24 hours' }];
  return [...counts].map(([code, count]) => {
    const { message = '', runId } = recent.find((alert) => alert.code === code)!;
    const cure =
      runId === undefined
        ? 'See the list of alerts in docs/events.md.'
        : nextCommand(args, `status ${runId.slice(0, 8)}`);
    return { check: 'alerts', ok: false, says: `${code} ${count} times in 24 hours: ${message}`, cure };
  });
}

export async function python(): Promise<Finding[]> {
  try {
    const { stdout } = await promisify(execFile)('python3', ['--version'], { timeout: 10_000 });
    return [{ check: 'python', ok: true, says: stdout.trim() }];
  } catch {
    return [{ check: 'python', ok: true, says: 'python3 was not found; only playbooks with `kind: python` need it' }];
  }
}

/** A check that cannot be made is a finding itself. */
export async function guarded(check: Check, context: Context): Promise<Finding[]> {
  try {
    return await check(context);
  } catch (error) {
    const code = error instanceof AppError ? error.code : 'INTERNAL';
    return [{ check: check.name, ok: false, says: messageOf(error), cure: ERRORS[code].cure }];
  }
}

const messageOf = (error: unknown): string =>
  `${error instanceof AppError ? error.code : 'INTERNAL'}: ${(error as Error).message}`;

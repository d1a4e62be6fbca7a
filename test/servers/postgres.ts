// A server of another major version than the embedded one: Debian's, in a private cluster that is gone afterwards.
import { execFileSync, spawnSync } from 'node:child_process';
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export interface PostgresServer {
  /** A superuser's address; the server listens on a unix socket only. */
  readonly url: string;
  readonly version: string;
  stop(): Promise<void>;
}

const VERSIONS = '/usr/lib/postgresql';
const USER = 'runledger';
const START_SECONDS = 60;

/** Initialises and starts a cluster in a temporary folder. Installs the package if it is missing and this is root. */
export async function startPostgres(settings: Readonly<Record<string, string>> = {}): Promise<PostgresServer> {
  const bin = findBinaries() ?? install();
  const folder = mkdtempSync(join(tmpdir(), 'rl-pg-'));
  // Postgres refuses to run as root; the package brings an account.
  const account = process.getuid?.() === 0 ? accountOf('postgres') : undefined;
  if (account) chownSync(folder, account.uid, account.gid);
  const run = (program: string, args: string[]): string => {
    // The server inherits what its starter has open: a pipe would stay open as long as it runs.
    const output = program === 'pg_ctl' ? 'ignore' : 'pipe';
    const options = { cwd: folder, encoding: 'utf8' as const, stdio: ['ignore', output, output] as never, ...account };
    const { status, stderr, error } = spawnSync(join(bin, program), args, options);
    if (status === 0) return '';
    const log = existsSync(logFile) ? readFileSync(logFile, 'utf8').slice(-2000) : '';
    throw new Error(`${program} failed: ${error?.message ?? ''}${stderr ?? ''}${log}`);
  };
  const data = join(folder, 'data');
  const logFile = join(folder, 'log');
  try {
    run('initdb', ['-D', data, '-U', USER, '--auth=trust', '--encoding=UTF8', '--locale=C.UTF-8', '--no-sync']);
    const all = { fsync: 'off', max_connections: '300', listen_addresses: "''", ...settings };
    const options = Object.entries(all).map(([name, value]) => `-c ${name}=${value}`);
    run('pg_ctl', [
      'start',
      '-w',
      '-t',
      `${START_SECONDS}`,
      '-D',
      data,
      '-l',
      logFile,
      '-o',
      `${options.join(' ')} -k ${folder}`,
    ]);
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  }
  const pid = Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0]);
  return {
    url: `postgresql://${USER}@localhost:5432/postgres?host=${encodeURIComponent(folder)}`,
    version: readFileSync(join(data, 'PG_VERSION'), 'utf8').trim(),
    async stop() {
      process.kill(pid, 'SIGINT');
      while (existsSync(join(data, 'postmaster.pid'))) await sleep(20);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function findBinaries(): string | undefined {
  if (!existsSync(VERSIONS)) return undefined;
  const versions = readdirSync(VERSIONS).sort((a, b) => Number(b) - Number(a));
  return versions.map((version) => join(VERSIONS, version, 'bin')).find((bin) => existsSync(join(bin, 'initdb')));
}

function install(): string {
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) {
    throw new Error(
      'The engine tests need a Postgres server: install the package `postgresql` (apt-get install postgresql).',
    );
  }
  const options = { stdio: 'inherit' as const, env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } };
  execFileSync('apt-get', ['update', '-q'], options);
  execFileSync('apt-get', ['install', '-y', '-q', '--no-install-recommends', 'postgresql'], options);
  const bin = findBinaries();
  if (!bin) throw new Error(`The package postgresql was installed, but ${VERSIONS} holds no server.`);
  return bin;
}

function accountOf(name: string): { uid: number; gid: number } {
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((entry) => entry.startsWith(`${name}:`));
  if (!line) throw new Error(`There is no account \`${name}\` to run the server as.`);
  const [, , uid, gid] = line.split(':');
  return { uid: Number(uid), gid: Number(gid) };
}

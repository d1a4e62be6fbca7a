// Runs the suites that need more than npm brings: the store on another major version of Postgres, and the engines on their
// servers (files named *.engines.test.ts). Arguments go to vitest; paths among them are run instead of all suites.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { startPostgres } from '../test/servers/postgres.ts';

const given = process.argv.slice(2);
const paths = given.filter((argument) => existsSync(argument));
const options = given.filter((argument) => !existsSync(argument));
const enginePaths = paths.filter((path) => path.includes('.engines.'));
const storePaths = paths.filter((path) => !enginePaths.includes(path));
let child: ReturnType<typeof spawn> | undefined;
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child?.kill(signal));

const store = paths.length === 0 || storePaths.length > 0 ? await storeSuites() : 0;
const engines = paths.length === 0 || enginePaths.length > 0 ? await engineSuites() : 0;
process.exitCode = store || engines;

async function storeSuites(): Promise<number> {
  const server = await startPostgres();
  console.log(`store suites on Postgres ${server.version}`);
  try {
    const suites = storePaths.length > 0 ? storePaths : ['src/store', 'src/projector'];
    return await vitest([...suites, '--exclude', 'src/store/embedded/**'], { DATABASE_URL: server.url });
  } finally {
    await server.stop();
  }
}

function engineSuites(): Promise<number> {
  console.log('engine suites on a Temporal server');
  return vitest(['--config', 'vitest.engines.config.ts', ...enginePaths]);
}

function vitest(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<number> {
  child = spawn('npx', ['vitest', 'run', ...args, ...options], { stdio: 'inherit', env: { ...process.env, ...env } });
  return new Promise<number>((resolve) => {
    child?.on('error', () => resolve(1));
    child?.on('exit', (status) => resolve(status ?? 1));
  });
}

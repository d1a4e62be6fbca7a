// Runs the suites that need more than npm brings: the store on another major version of Postgres. Arguments go to vitest;
// paths among them are run instead of all suites.
import { spawn } from 'node:child_process';
import { startPostgres } from '../test/servers/postgres.ts';

const server = await startPostgres();
console.log(`store suites on Postgres ${server.version}`);
const own = process.argv.slice(2);
const suites = own.some((argument) => !argument.startsWith('-')) ? [] : ['src/store', 'src/projector'];
const args = ['vitest', 'run', ...suites, '--exclude', 'src/store/embedded/**', ...own];
const child = spawn('npx', args, { stdio: 'inherit', env: { ...process.env, DATABASE_URL: server.url } });
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal));
const code = await new Promise<number>((resolve) => {
  child.on('error', () => resolve(1));
  child.on('exit', (status) => resolve(status ?? 1));
});
await server.stop();
process.exitCode = code;

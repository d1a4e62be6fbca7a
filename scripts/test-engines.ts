// Runs the suites that need more than npm brings: the store on another major version of Postgres. Further arguments go to vitest.
import { spawn } from 'node:child_process';
import { startPostgres } from '../test/servers/postgres.ts';

const server = await startPostgres();
console.log(`store suites on Postgres ${server.version}`);
const args = [
  'vitest',
  'run',
  'src/store',
  'src/projector',
  '--exclude',
  'src/store/embedded/**',
  ...process.argv.slice(2),
];
const child = spawn('npx', args, { stdio: 'inherit', env: { ...process.env, DATABASE_URL: server.url } });
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal));
const code = await new Promise<number>((resolve) => {
  child.on('error', () => resolve(1));
  child.on('exit', (status) => resolve(status ?? 1));
});
await server.stop();
process.exitCode = code;

import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { PostgresStore } from '../../src/store/postgres-store.ts';
import { createTestDatabase, type TestDatabase } from '../setup/database.ts';
import { builtCli, ROOT, runCli } from './cli.fixture.ts';

let database: TestDatabase;
let store: PostgresStore;
let folder: string;
let env: Record<string, string>;
beforeAll(async () => {
  builtCli();
  database = await createTestDatabase();
  store = await PostgresStore.open({ url: database.url });
  folder = mkdtempSync(join(tmpdir(), 'runledger-temporal-cli-'));
  const { address, namespace } = inject('temporal');
  env = {
    DATABASE_URL: database.url,
    RUNLEDGER_FOLDER: folder,
    TEMPORAL_ADDRESS: address,
    TEMPORAL_NAMESPACE: namespace,
    RUNLEDGER_TEMPORAL_TASK_QUEUE: `cli-${randomUUID()}`,
  };
});
const children: ChildProcess[] = [];
afterAll(async () => {
  // Those that a failed test has left.
  for (const child of children) if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
  await store?.close();
  await database?.drop();
  rmSync(folder, { recursive: true, force: true });
});

interface Told {
  readonly runId: string;
  readonly status: string;
}

const cli = (...args: string[]) => runCli(args, { env });
const json = async (...args: string[]): Promise<Told> => {
  const { stdout, stderr, code } = await cli(...args, '--json');
  if (stdout.trim() === '') throw new Error(`${args.join(' ')} ended with ${code}: ${stderr}`);
  return JSON.parse(stdout) as Told;
};

async function until(holds: () => Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 90_000; !(await holds()); await sleep(200)) {
    if (Date.now() > end) throw new Error('it did not happen');
  }
}

const statusOf = async (runId: string): Promise<string | undefined> => (await store.findRun(runId))?.status;

async function startWorker(): Promise<{ child: ChildProcess; gone: Promise<void> }> {
  const { PATH = '', HOME = '' } = process.env;
  const child = spawn(process.execPath, [builtCli(), 'worker', '--engine', 'temporal', '--json'], {
    cwd: ROOT,
    env: { PATH, HOME, LANG: 'C.UTF-8', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  const gone = new Promise<void>((done) => child.on('exit', () => done()));
  await new Promise<void>((done, failed) => {
    child.stdout.once('data', () => done());
    void gone.then(() => failed(new Error('the worker ended at once')));
  });
  return { child, gone };
}

test('run --engine temporal runs a playbook, and every other command finds the run where it is', async () => {
  const { code, stdout } = await cli('run', 'examples/branches.yaml', '--engine', 'temporal');
  expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining('COMPLETED') });
  const events = await cli('events', 'latest', '--type', 'RunStarted', '--json');
  expect(JSON.parse(events.stdout.trim())).toMatchObject({
    payload: { engineType: 'temporal', engineRunRef: { provider: 'temporal', namespace: env['TEMPORAL_NAMESPACE'] } },
  });
  expect((await cli('verify', 'latest')).code).toBe(0);
  expect((await cli('replay', 'latest')).code).toBe(0);
});

test('a worker that is killed loses nothing; pause, resume and cancel use the engine of the run', async () => {
  const file = join(folder, 'slow.yaml');
  const trace = join(folder, 'trace');
  writeFileSync(
    file,
    `apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: slow, version: "1"}
workflow:
- {step: start, tool: {kind: shell, cmds: ["echo one >> ${trace}", "sleep 2"], effect: {class: read}}, next: {arcs: [{step: two}]}}
- {step: two, tool: {kind: shell, cmds: ["echo two >> ${trace}"], effect: {class: read}}}
`,
  );
  const lines = (): string[] => {
    try {
      return readFileSync(trace, 'utf8').split('\n').filter(Boolean);
    } catch {
      return [];
    }
  };
  const doomed = await startWorker();
  const { runId } = await json('run', file, '--engine', 'temporal', '--detach');
  await until(async () => lines().length > 0);
  doomed.child.kill('SIGKILL');
  await doomed.gone;
  expect(await json('pause', runId)).toMatchObject({ status: 'PAUSED' });
  expect((await json('resume', runId, '--detach')).runId).toBe(runId);
  const heir = await startWorker();
  try {
    await until(async () => (await statusOf(runId)) === 'COMPLETED');
    expect((await cli('status', runId)).stdout).toContain('COMPLETED');
    expect(lines().at(-1)).toBe('two');
    expect(lines().filter((line) => line === 'two').length).toBe(1);
    const long = join(folder, 'long.yaml');
    writeFileSync(long, readFileSync(file, 'utf8').replace('sleep 2', 'sleep 300'));
    const other = await json('run', long, '--engine', 'temporal', '--detach');
    expect((await cli('cancel', other.runId, '--detach')).code).toBe(0);
    await until(async () => (await statusOf(other.runId)) === 'CANCELLED');
  } finally {
    heir.child.kill('SIGTERM');
    await heir.gone;
  }
}, 240_000);

test('a server that cannot be reached is an error with its code, and no run is made', async () => {
  const runs = async (): Promise<string[]> => {
    const { stdout } = await cli('runs', '--json');
    return (JSON.parse(stdout) as { runs: Told[] }).runs.map(({ runId }) => runId);
  };
  const before = await runs();
  const { code, stderr, stdout } = await runCli(['run', 'examples/hello.yaml', '--engine', 'temporal', '--detach'], {
    env: { ...env, TEMPORAL_ADDRESS: '127.0.0.1:1' },
  });
  expect(code).toBe(69);
  expect(`${stderr}${stdout}`).toContain('ENGINE_UNAVAILABLE');
  expect(await runs()).toEqual(before);
});

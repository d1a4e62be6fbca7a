import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../setup/database.ts';
import { builtCli, type CliEnd, runCli } from './cli.fixture.ts';

let database: TestDatabase;
let folder: string;
beforeAll(async () => {
  builtCli();
  database = await createTestDatabase();
  folder = await mkdtemp(join(tmpdir(), 'runledger-killed-'));
});
afterAll(async () => {
  await database.drop();
  await rm(folder, { recursive: true, force: true });
});

const cli = (args: readonly string[], options: Parameters<typeof runCli>[1] = {}): Promise<CliEnd> =>
  runCli(args, { cwd: folder, ...options, env: { DATABASE_URL: database.url, ...options.env } });
const jsonOf = ({ stdout }: CliEnd): Record<string, unknown> => JSON.parse(stdout);

test('resume goes on at once with a run whose process was killed, and does not wait for the end of its leases', async () => {
  const head = 'apiVersion: runledger/v1\nkind: Playbook\nmetadata: {name: killed, version: "1"}\nworkflow:\n';
  const steps = `
  - {step: start, tool: {kind: shell, cmds: ['echo begun; sleep 1; echo one']}, next: {arcs: [{step: two}]}}
  - {step: two, tool: {kind: noop, result: "{{ start.lines | last }} two"}}
`;
  await writeFile(join(folder, 'killed.yaml'), head + steps);
  const killed = await cli(['run', 'killed.yaml', '--logs'], {
    watch: (stdout, signal) => {
      if (stdout.includes('begun')) signal('SIGKILL');
    },
  });
  expect(killed.code).toBeNull();
  const from = Date.now();
  expect(jsonOf(await cli(['resume', 'latest', '--json']))).toMatchObject({ status: 'COMPLETED', result: 'one two' });
  // The lease alone would have taken 30 seconds.
  expect(Date.now() - from).toBeLessThan(25_000);
});

test('run leaves work alone that belongs to other runs of the same database', async () => {
  const head = 'apiVersion: runledger/v1\nkind: Playbook\nmetadata: {name: alone, version: "1"}\nworkflow:\n';
  await writeFile(join(folder, 'alone.yaml'), `${head}  - {step: start, tool: {kind: shell, cmds: ['sleep 1.5']}}\n`);
  const waiting = jsonOf(await cli(['run', 'alone.yaml', '--detach', '--json']))['runId'] as string;
  expect(jsonOf(await cli(['run', 'alone.yaml', '--json']))).toMatchObject({ status: 'COMPLETED' });
  expect(jsonOf(await cli(['status', waiting, '--json']))).toMatchObject({
    snapshot: { status: 'RUNNING', steps: [{ status: 'PENDING' }] },
  });
  expect(jsonOf(await cli(['resume', waiting, '--json']))).toMatchObject({ status: 'COMPLETED' });
});

import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { PostgresStore } from '../../src/store/postgres-store.ts';
import { stampEvent } from '../../src/store/stamp-event.ts';
import { createTestDatabase, type TestDatabase } from '../setup/database.ts';
import { builtCli, type CliEnd, runCli } from './cli.fixture.ts';

let database: TestDatabase;
let folder: string;
beforeAll(async () => {
  builtCli();
  database = await createTestDatabase();
  folder = await mkdtemp(join(tmpdir(), 'runledger-explained-'));
});
afterAll(async () => {
  await database.drop();
  await rm(folder, { recursive: true, force: true });
});

const cli = (args: readonly string[]): Promise<CliEnd> =>
  runCli(args, { cwd: folder, env: { DATABASE_URL: database.url } });
const HEAD = 'apiVersion: runledger/v1\nkind: Playbook\nmetadata: {name: test, version: "1"}\n';

test('a template that fails while the run goes on is shown with its place in the file, also one of a sub-playbook', async () => {
  const step = '  - step: start\n    tool: {kind: noop, result: "{{ workload.odd + 1 }}"}\n';
  await writeFile(join(folder, 'divide.yaml'), `${HEAD}workload: {odd: {}}\nworkflow:\n${step}`);
  await writeFile(
    join(folder, 'outer.yaml'),
    `${HEAD.replace('test', 'outer')}workflow:\n  - {step: call, tool: {kind: playbook, path: divide.yaml}}\n`,
  );
  const direct = await cli(['run', 'divide.yaml']);
  expect(direct.code).toBe(1);
  expect(direct.stdout).toMatch(/TEMPLATE_TYPE in step start: .* \(divide\.yaml:7:32\)\n/);
  expect(direct.stdout).not.toMatch(/\/steps\/0|filter/);
  const place = "TEMPLATE_TYPE in step start: .* \\(`result` of step 'start'\\)";
  expect((await cli(['status', 'latest'])).stdout).toMatch(new RegExp(place));
  expect((await cli(['events', 'latest', '--type', 'StepFailed'])).stdout).toContain("(`result` of step 'start')");
  expect((await cli(['retry', 'latest'])).stdout).toMatch(new RegExp(place));
  const outer = await cli(['run', 'outer.yaml']);
  expect(outer.stdout).toContain('(divide.yaml:7:32)');
  // What the child met is no place in the outer playbook.
  expect(outer.stdout).not.toContain('(outer.yaml:');
  expect((await cli(['status', 'latest'])).stdout).not.toMatch(/\/steps\/|of step 'call'\)/);
});

test('doctor takes a log that was written by hand for no run that lost its work, and cancel and resume say what it is', async () => {
  const ids = { tenantId: 'acme', projectId: 'main', environmentId: 'test', planId: 'by-hand', planVersion: '1' };
  const run = { runId: randomUUID(), ...ids };
  const store = await PostgresStore.open({ url: database.url });
  try {
    await store.createRun(run);
    const event = { eventType: 'StepStarted' as const, stepId: 'load', logicalAttemptId: 1 };
    await store.append([stampEvent(run, event, { emittedAt: new Date().toISOString() })], { as: 'worker' });
  } finally {
    await store.close();
  }
  const doctor = await cli(['doctor', '--fix']);
  expect(doctor.stdout).toContain(`run ${run.runId.slice(0, 8)} was not started by an engine`);
  expect(doctor.stdout).not.toContain('fixed');
  expect((await cli(['cancel', run.runId])).stderr).toContain('written by hand');
  expect((await cli(['resume', run.runId])).stderr).toContain('names no plan');
});

test('a failed loop says which iterations failed and what to type; a missing secret says what to set', async () => {
  const loop = '  - {step: each, loop: {in: [0, 1, 2], iterator: n}, tool: {kind: python, code: "x = 1 / (n - 1)"}}\n';
  const args = loop.replace('code:', 'args: {n: "{{ n }}"}, code:');
  await writeFile(join(folder, 'loop.yaml'), `${HEAD}workflow:\n${args}`);
  const failed = await cli(['run', 'loop.yaml']);
  expect(failed.stdout).toMatch(/1 of 2 iterations failed \(1\)\. The first: .*division by zero.* \(line 1: x = 1/);
  expect(failed.stdout).toMatch(/runledger events [0-9a-f]{8} --type LoopIterationFailed/);
  const secret =
    '  - {step: start, tool: {kind: http, url: "http://127.0.0.1:1/", auth: {type: bearer, credential: api_token}}}\n';
  await writeFile(join(folder, 'secret.yaml'), `${HEAD}workflow:\n${secret}`);
  expect((await cli(['run', 'secret.yaml'])).stdout).toContain(
    'set the environment variable RUNLEDGER_SECRET_API_TOKEN',
  );
});

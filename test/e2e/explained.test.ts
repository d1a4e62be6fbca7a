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
  expect((await cli(['run', 'outer.yaml'])).stdout).toContain('(divide.yaml:7:32)');
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

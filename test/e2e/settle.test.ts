import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../setup/database.ts';
import { builtCli, type CliEnd, runCli } from './cli.fixture.ts';

let database: TestDatabase;
let folder: string;
let server: Server;
let came = 0;
/** The first request is never answered: whoever sent it dies before. */
let onFirst: (() => void) | undefined;
beforeAll(async () => {
  builtCli();
  database = await createTestDatabase();
  folder = await mkdtemp(join(tmpdir(), 'runledger-settle-'));
  server = createServer((_request, response) => {
    came += 1;
    if (onFirst) {
      onFirst();
      onFirst = undefined;
    } else response.setHeader('content-type', 'application/json').end('{"id": 8}');
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
});
afterAll(async () => {
  server.closeAllConnections();
  server.close();
  await database.drop();
  await rm(folder, { recursive: true, force: true });
});

const cli = (args: readonly string[], options: Parameters<typeof runCli>[1] = {}): Promise<CliEnd> =>
  runCli(args, { cwd: folder, ...options, env: { DATABASE_URL: database.url, ...options.env } });
const jsonOf = ({ stdout }: CliEnd): Record<string, unknown> => JSON.parse(stdout);

/** A run whose process was killed while its POST was on the wire, resumed until it waits for a person. */
async function unknownPost(name: string, outer?: string): Promise<{ readonly left: CliEnd; readonly target: string }> {
  const target = `http://127.0.0.1:${(server.address() as AddressInfo).port}/${name}`;
  await writeFile(
    join(folder, `${name}.yaml`),
    `apiVersion: runledger/v1
kind: Playbook
metadata: {name: ${name}, version: "1"}
workflow:
  - step: start
    tool: {kind: shell, cmds: ['echo begun']}
    next: {arcs: [{step: pay}]}
  - step: pay
    tool: {kind: http, url: "${target}", method: POST, json: {amount: 4}, timeout: 4}
`,
  );
  if (outer !== undefined)
    await writeFile(
      join(folder, `${outer}.yaml`),
      `apiVersion: runledger/v1
kind: Playbook
metadata: {name: ${outer}, version: "1"}
workflow:
  - {step: first, tool: {kind: shell, cmds: ['echo begun']}, next: {arcs: [{step: call}]}}
  - {step: call, tool: {kind: playbook, path: ${name}.yaml}}
`,
    );
  came = 0;
  let kill: (() => void) | undefined;
  let isThere = false;
  onFirst = () => {
    isThere = true;
    kill?.();
  };
  const killed = await cli(['run', `${outer ?? name}.yaml`, '--logs'], {
    watch: (_stdout, signal) => {
      kill = () => void signal('SIGKILL');
      if (isThere) kill();
    },
  });
  expect(killed.code).toBeNull();
  expect(came).toBe(1);
  return { left: await cli(['resume', 'latest']), target };
}

test('a POST whose process was killed is not sent again: resume leaves, and goes on when a person has said that it happened', async () => {
  const { left, target } = await unknownPost('happened');
  expect(left.code).toBe(75);
  expect(left.stdout).toContain(`The outcome of POST ${target} of step pay is unknown.`);
  expect(left.stdout).toMatch(/next: {3}runledger settle [0-9a-f]{8} --happened/);
  const shown = await cli(['status', 'latest']);
  expect(shown.stdout).toContain('waits to be settled');
  expect(shown.stdout).toMatch(/next: {3}runledger settle [0-9a-f]{8} --happened/);
  const doctor = jsonOf(await cli(['doctor', '--json'])) as {
    findings: { check: string; ok: boolean; says: string }[];
  };
  const work = doctor.findings.filter(({ check }) => check === 'work');
  expect(work).toMatchObject([{ ok: true, says: expect.stringContaining('waits for runledger settle') }]);
  expect(jsonOf(await cli(['resume', 'latest', '--json']))).toMatchObject({
    status: 'RUNNING',
    openWrites: [{ step: 'pay', operation: 'POST', target }],
  });
  const unclear = await cli(['settle', 'latest', '--happened', '--give-up']);
  expect([unclear.code, unclear.stderr]).toEqual([64, expect.stringContaining('Say one of')]);
  expect((await cli(['settle', 'latest', '--happened', '--result', '{id: 7}'])).code).toBe(64);
  const settled = jsonOf(await cli(['settle', 'latest', 'pay', '--happened', '--result', '{"id": 7}', '--json']));
  expect(settled).toMatchObject({ step: 'pay', answer: 'happened' });
  expect(jsonOf(await cli(['resume', 'latest', '--json']))).toMatchObject({ status: 'COMPLETED', result: { id: 7 } });
  expect(came).toBe(1);
  expect(jsonOf(await cli(['replay', 'latest', '--json']))).toMatchObject({ ok: true });
  const again = await cli(['settle', 'latest', '--happened']);
  expect([again.code, again.stderr]).toEqual([65, expect.stringContaining('NOTHING_TO_SETTLE')]);
}, 120_000);

test('a person may have a POST sent again whose outcome was lost', async () => {
  const { left } = await unknownPost('again');
  expect(left.code).toBe(75);
  expect((await cli(['settle', 'latest', '--send-again'])).stdout).toMatch(/next: runledger resume [0-9a-f]{8}/);
  expect(jsonOf(await cli(['resume', 'latest', '--json']))).toMatchObject({ status: 'COMPLETED' });
  expect(came).toBe(2);
  expect(jsonOf(await cli(['replay', 'latest', '--json']))).toMatchObject({ ok: true });
}, 120_000);

test('a write of a sub-playbook is settled in its own run, and resume of the outer one goes on', async () => {
  const { left } = await unknownPost('inner', 'outer');
  expect(left.code).toBe(75);
  const inner = /next: {3}runledger settle ([0-9a-f]{8}) --happened/.exec(left.stdout)?.[1] ?? '';
  const outer = /^run: {4}(\S{8})/m.exec(left.stdout)?.[1] ?? '';
  expect(inner).not.toBe(outer);
  const said = await cli(['settle', inner, '--give-up', '--reason', 'not wanted any more']);
  expect(said.stdout).toContain(`next: runledger resume ${outer}`);
  const ended = await cli(['resume', outer, '--json']);
  expect([ended.code, jsonOf(ended)]).toMatchObject([1, { status: 'FAILED', error: { code: 'CHILD_RUN_FAILED' } }]);
  expect(came).toBe(1);
  expect(jsonOf(await cli(['replay', inner, '--json']))).toMatchObject({ ok: true });
}, 120_000);

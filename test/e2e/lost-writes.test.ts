import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../setup/database.ts';
import { builtCli, type CliEnd, runCli } from './cli.fixture.ts';

// Each test starts many processes, on a machine that may have other things to do.
vi.setConfig({ testTimeout: 120_000 });

let database: TestDatabase;
let folder: string;
let server: Server;
const came = new Map<string, number>();
beforeAll(async () => {
  builtCli();
  database = await createTestDatabase();
  folder = await mkdtemp(join(tmpdir(), 'runledger-lost-'));
  server = createServer((request, response) => {
    const path = request.url ?? '';
    came.set(path, (came.get(path) ?? 0) + 1);
    // What was asked for may be done, but nobody hears of it.
    if (came.get(path) === 1 && path.startsWith('/breaks')) request.socket.destroy();
    else response.setHeader('content-type', 'application/json').end(JSON.stringify({ id: came.get(path) }));
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
});
afterAll(async () => {
  server.closeAllConnections();
  server.close();
  await database.drop();
  await rm(folder, { recursive: true, force: true });
});

const cli = (args: readonly string[]): Promise<CliEnd> =>
  runCli(args, { cwd: folder, env: { DATABASE_URL: database.url } });
const jsonOf = ({ stdout }: CliEnd): Record<string, unknown> => JSON.parse(stdout);
const HEAD = 'apiVersion: runledger/v1\nkind: Playbook\n';

/** A playbook that posts once to a path of the server. */
async function posting(name: string, path: string, more = ''): Promise<{ file: string; target: string }> {
  const target = `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`;
  await writeFile(
    join(folder, `${name}.yaml`),
    `${HEAD}metadata: {name: ${name}, version: "1"}
workflow:
  - {step: first, tool: {kind: noop}, next: {arcs: [{step: pay}]}}
  - {step: pay, tool: {kind: http, url: "${target}", method: POST, json: {amount: 4}${more}}}
`,
  );
  return { file: `${name}.yaml`, target };
}

test('a POST whose connection broke is said to be unknown at once, and a retry asks before it sends it again', async () => {
  const { file, target } = await posting('broken', '/breaks-alone');
  const failed = await cli(['run', file]);
  expect(failed.code).toBe(1);
  const unknown = `The outcome of POST ${target} of step pay is unknown: it may have happened.\nA retry does not send it`;
  expect(failed.stdout).toContain(unknown);
  expect(failed.stdout).toMatch(/\nnext: {3}runledger retry [0-9a-f]{8}\n$/);
  expect((await cli(['status', 'latest'])).stdout).toContain(unknown);
  expect((await cli(['events', 'latest', '--type', 'EffectUnknown'])).stdout).toContain('it may have happened');
  const early = await cli(['settle', 'latest', '--happened']);
  expect([early.code, early.stderr]).toEqual([
    65,
    expect.stringMatching(/is FAILED: .* is settled in a retry\.\nnext: runledger retry [0-9a-f]{8}/),
  ]);
  const asked = await cli(['retry', 'latest']);
  expect([asked.code, asked.stdout]).toEqual([75, expect.stringMatching(/next: {3}runledger settle \S{8} --happened/)]);
  await cli(['settle', 'latest', '--happened', '--result', '{"id": 7}']);
  const done = jsonOf(await cli(['resume', 'latest', '--json']));
  expect(done).toMatchObject({ status: 'COMPLETED', result: { id: 7 } });
  expect(done).not.toHaveProperty('unknownWrites');
  expect(came.get('/breaks-alone')).toBe(1);
  const short = String(done['runId']).slice(0, 8);
  const again = await cli(['retry', 'latest', '--from', 'pay']);
  expect(again.stdout).toMatch(new RegExp(`pay .*not sent again: receipt of run ${short}`));
  expect((await cli(['status', 'latest'])).stdout).toContain(`not sent again: receipt of run ${short}`);
  const event = await cli(['events', 'latest', '--type', 'EffectSucceeded']);
  expect(event.stdout).toContain(`not sent again: receipt of run ${short}`);
  expect(came.get('/breaks-alone')).toBe(1);
});

test('a retry of the outer run does not send again what became unknown in a sub-playbook', async () => {
  const { file, target } = await posting('inner', '/breaks-inner');
  await writeFile(
    join(folder, 'outer.yaml'),
    `${HEAD}metadata: {name: outer, version: "1"}\nworkflow:\n  - {step: call, tool: {kind: playbook, path: ${file}}}\n`,
  );
  const failed = jsonOf(await cli(['run', 'outer.yaml', '--json']));
  expect(failed).toMatchObject({
    status: 'FAILED',
    error: { code: 'CHILD_RUN_FAILED' },
    unknownWrites: [{ step: 'pay', operation: 'POST', target }],
  });
  // To run the playbook anew would send it.
  const shown = await cli(['status', 'latest']);
  expect(shown.stdout).toMatch(/of step pay of run [0-9a-f]{8} is unknown: it may have happened/);
  expect(shown.stdout).toMatch(/\nnext: {3}runledger retry [0-9a-f]{8}\n$/);
  const asked = await cli(['retry', 'latest']);
  expect(asked.code).toBe(75);
  const inner = /next: {3}runledger settle ([0-9a-f]{8}) --happened/.exec(asked.stdout)?.[1] ?? '';
  await cli(['settle', inner, '--send-again']);
  expect(jsonOf(await cli(['resume', 'latest', '--json']))).toMatchObject({ status: 'COMPLETED' });
  expect(came.get('/breaks-inner')).toBe(2);
  for (const run of ['latest', inner]) expect(jsonOf(await cli(['replay', run, '--json']))).toMatchObject({ ok: true });
  // What it has sent is not sent once more by another child of the same call.
  expect((await cli(['retry', 'latest', '--from', 'call'])).stdout).toMatch(/pay .*not sent again: receipt of run/);
  expect(came.get('/breaks-inner')).toBe(2);
});

test('a second run with the same key of the author says that the first one has sent it', async () => {
  const { file } = await posting('keyed', '/keyed', ', effect: {key: "invoice-7"}');
  const first = String(jsonOf(await cli(['run', file, '--json']))['runId']);
  const second = await cli(['run', file]);
  expect(second.stdout).toMatch(new RegExp(`pay .*not sent again: receipt of run ${first.slice(0, 8)}`));
  const third = jsonOf(await cli(['run', file, '--json']));
  expect(third['steps']).toMatchObject([{ stepId: 'first' }, { stepId: 'pay', receipts: { count: 1, runId: first } }]);
  expect(came.get('/keyed')).toBe(1);
});

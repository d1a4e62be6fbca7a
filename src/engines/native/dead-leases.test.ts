import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ENGINE_TOOL_FORMS, engineTools } from '../../testing/engine-tools.ts';
import { noopTool } from '../../tools/noop/noop-tool.ts';
import { playbook } from '../test-bench.fixture.ts';
import { hostTagOf, workerName } from '../units/worker-name.ts';
import { traces, until } from '../watching.fixture.ts';
import { folderArtifacts } from './folder-artifacts.fixture.ts';
import { type EngineBench, openEngine } from './native.fixture.ts';
import { spawnWorker } from './spawn-worker.fixture.ts';

let bench: EngineBench;
let folder: string;
const tools = { tools: ENGINE_TOOL_FORMS };

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'runledger-dead-'));
  bench = await openEngine({ artifacts: folderArtifacts(folder), worker: false });
});
afterAll(async () => {
  await bench?.close();
  rmSync(folder, { recursive: true, force: true });
});

test('a name says on which host a worker runs, and two of one process differ', () => {
  const [one, two] = [workerName(), workerName()];
  expect(one).not.toBe(two);
  expect(hostTagOf(one)).toBe(hostTagOf(two));
  expect(hostTagOf('host:17:12ab34cd')).toBeUndefined();
});

test('RQ-3.2b the leases of a worker of this host that was killed are handed back at once, not when they end', {
  timeout: 90_000,
}, async () => {
  const file = join(folder, 'killed');
  const ref = await bench.start(
    playbook(`- {step: start, tool: {kind: probe, file: ${file}, delay_ms: 1500, result: 1}}`),
    tools,
  );
  const victim = await spawnWorker(bench.url, folder, { leaseMs: 600_000 });
  await until(() => traces(file).length === 1);
  const [row] = await bench.store.work.list(ref.runId);
  victim.process.kill('SIGKILL');
  await victim.gone;
  // It says itself that nobody may have it for ten minutes.
  expect(Date.parse(row!.leaseExpiresAt!) - Date.now()).toBeGreaterThan(300_000);
  const survivor = await spawnWorker(bench.url, folder, { leaseMs: 600_000 });
  try {
    const events = await bench.ended(ref);
    expect(events.at(-1)?.eventType).toBe('RunCompleted');
    expect(traces(file).length).toBe(2);
    expect(events.find(({ eventType }) => eventType === 'StepCompleted')?.engineAttemptId).toBe(2);
  } finally {
    await survivor.stop();
  }
});

test('the leases of a worker that lives, of one on another host and of one with an unknown name are left alone', {
  timeout: 90_000,
}, async () => {
  const file = join(folder, 'alive');
  const ref = await bench.start(
    playbook(`- {step: start, tool: {kind: probe, file: ${file}, delay_ms: 700, result: 1}}`),
    tools,
  );
  const holder = await spawnWorker(bench.url, folder, { leaseMs: 60_000 });
  const other = await openEngine({ url: bench.url, artifacts: folderArtifacts(folder), tools: engineTools() });
  try {
    await until(() => traces(file).length === 1);
    const { work } = bench.store;
    const far = `elsewhere:${process.pid}:0:${'0'.repeat(12)}:12345678`;
    await work.checkIn(far, '0'.repeat(12));
    await work.checkIn('old-name', hostTagOf(workerName())!);
    const again = await openEngine({ url: bench.url, artifacts: folderArtifacts(folder), tools: engineTools() });
    await sleep(300);
    await again.close();
    expect(await work.checkIn('asks', '0'.repeat(12))).toContain(far);
    expect(await work.checkIn('asks', hostTagOf(workerName())!)).toContain('old-name');
    const events = await bench.ended(ref);
    expect(events.at(-1)?.eventType).toBe('RunCompleted');
    expect(traces(file).length).toBe(1);
  } finally {
    await other.close();
    await holder.stop();
  }
});

test('a worker that stops is no longer listed', async () => {
  const engine = await openEngine({ url: bench.url, tools: [noopTool()] });
  const { owner } = engine.runtime.worker!;
  const tag = hostTagOf(owner)!;
  await until(async () => (await bench.store.work.checkIn('asks', tag)).includes(owner));
  await engine.close();
  expect(await bench.store.work.checkIn('asks', tag)).not.toContain(owner);
});

test('a worker that is told to take only one run and its children leaves the work of others alone', async () => {
  const child = (path: string) =>
    path === 'kid'
      ? {
          file: 'kid.yaml',
          text: 'apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: kid, path: kid, version: "1"}\nworkflow:\n- {step: start, tool: {kind: noop, result: 5}}',
        }
      : undefined;
  const parent = playbook(`
- step: start
  loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
  tool: {kind: playbook, path: kid}
`);
  const foreign = await bench.start(playbook('- {step: start, tool: {kind: noop}}'));
  const mine = await bench.start(parent, { resolve: child });
  const scoped = await openEngine({
    url: bench.url,
    artifacts: folderArtifacts(folder),
    worker: { scope: { runs: [mine.runId] }, pollMs: 20 },
  });
  try {
    expect((await scoped.ended(mine)).at(-1)?.eventType).toBe('RunCompleted');
    await sleep(200);
    expect((await bench.store.work.list(foreign.runId)).map(({ deliveries }) => deliveries)).toEqual([0]);
  } finally {
    await scoped.close();
  }
  const open = await openEngine({ url: bench.url, artifacts: folderArtifacts(folder) });
  await open.ended(foreign);
  await open.close();
});

test('a worker of a tenant, or of a project, takes only what belongs there', async () => {
  const plan = playbook('- {step: start, tool: {kind: noop}}');
  const ref = await bench.start(plan);
  const claim = async (scope: object) =>
    (await bench.store.work.claim('me', { limit: 100, leaseMs: 1000, scope })).map(({ runId }) => runId);
  expect(await claim({ tenantId: 'other' })).toEqual([]);
  expect(await claim({ tenantId: 'acme', projectId: 'other' })).toEqual([]);
  expect(await claim({ runs: [] })).toEqual([]);
  expect(await claim({ tenantId: 'acme', projectId: 'main' })).toEqual([ref.runId]);
});

// What runs depend on goes away in the middle of them: the Temporal server, workers, and the database.
import { randomUUID } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import type { EngineRunRef } from '../../src/contracts/values.ts';
import { folderArtifacts } from '../../src/engines/native/folder-artifacts.fixture.ts';
import type { WorkerProcess } from '../../src/engines/native/spawn-worker.fixture.ts';
import { spawnTemporalWorker } from '../../src/engines/temporal/spawn-temporal-worker.fixture.ts';
import { openTemporalBench, type TemporalBench } from '../../src/engines/temporal/temporal.fixture.ts';
import { cleanServer, temporaryFolder } from '../../src/store/embedded/embedded.fixture.ts';
import { openEmbedded } from '../../src/store/embedded/open-embedded.ts';
import { PostgresStore } from '../../src/store/postgres-store.ts';
import { seededRandom } from '../chaos/chaos.fixture.ts';
import { killServer } from '../chaos/kill-server.fixture.ts';
import { startTemporal } from '../servers/temporal.ts';
import { countEffects, EFFECTS, scenario, TOTAL } from './scenario.fixture.ts';

const WORKFLOW = { maxEvents: 40, handOverMs: 200, heartbeatMs: 2000, retryMs: 100, maxRetryMs: 1000 };
const LEASE_MS = 2000;
const RUNS = 8;

function temporary(): string {
  const folder = mkdtempSync(join(tmpdir(), 'runledger-outage-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const spawnOne = (bench: TemporalBench, folder: string): Promise<WorkerProcess> =>
  spawnTemporalWorker(bench.url, folder, { temporal: bench.temporal, leaseMs: LEASE_MS, concurrency: 6 });

/** Legal, chained, decided again the same, completed, and every effect once. */
async function isWhole(bench: TemporalBench, ref: EngineRunRef, file: string): Promise<void> {
  const { eventType, payload } = (await bench.ended(ref)).at(-1)!;
  expect([eventType, payload?.['result'] ?? payload]).toEqual(['RunCompleted', { value: TOTAL }]);
  expect(countEffects(file)).toEqual(EFFECTS);
}

test('WE-1c WE-1g the Temporal server and one of two workers are killed in the middle of runs, and come back: every run ends, every effect happened once', {
  timeout: 600_000,
}, async () => {
  const random = seededRandom();
  const folder = temporary();
  const server = await startTemporal();
  onTestFinished(() => server.stop());
  const { address, namespace } = server;
  const bench = await openTemporalBench({
    artifacts: folderArtifacts(folder),
    worker: false,
    leaseMs: LEASE_MS,
    temporal: { address, namespace, workflow: WORKFLOW, sweepAfterMs: 2000, callTimeoutMs: 2000 },
    onError: () => {},
  });
  const workers = [await spawnOne(bench, folder), await spawnOne(bench, folder)];
  try {
    const runs: { ref: EngineRunRef; file: string }[] = [];
    const start = async (count: number): Promise<void> => {
      for (let i = 0; i < count; i += 1) {
        const file = join(folder, `effects-${runs.length}`);
        runs.push({ file, ref: await bench.start(scenario(file, { delayMs: 60 })) });
      }
    };
    await start(RUNS);
    await sleep(200 + random() * 600);
    await server.kill();
    workers[0]!.process.kill('SIGKILL');
    await workers[0]!.gone;
    // Without the server, the status is what it was: it comes from the log.
    const { ref } = runs[0]!;
    const run = await bench.store.findRun(ref.runId);
    expect(await bench.runtime.engine.getRunStatus(ref)).toMatchObject({ runId: ref.runId, status: run?.status });
    await server.restart();
    workers[0] = await spawnOne(bench, folder);
    // The clients find the server again by themselves.
    await start(2);
    for (const { ref, file } of runs) await isWhole(bench, ref, file);
    // The worker that saw the server go is still there.
    expect(workers[1]!.process.exitCode).toBe(null);
  } finally {
    await Promise.all(workers.map((worker) => worker.stop()));
    await bench.close();
  }
});

test('WE-1b WE-1g the database is gone for 20 s in the middle of steps: a run ends as its policy says, and effects happened once', {
  timeout: 600_000,
}, async () => {
  const data = await temporaryFolder();
  cleanServer(join(data, 'pg'));
  const database = await openEmbedded({ folder: data });
  const { host, user, database: name } = database.config;
  const url = `postgresql://${user}@localhost:5432/${name}?host=${encodeURIComponent(String(host))}`;
  await (await PostgresStore.open({ url, migrate: true })).close();
  const folder = temporary();
  const temporal = { taskQueue: `outage-${randomUUID()}`, workflow: WORKFLOW, sweepAfterMs: 2000 };
  const bench = await openTemporalBench({
    url,
    artifacts: folderArtifacts(folder),
    worker: false,
    leaseMs: LEASE_MS,
    temporal,
    onError: () => {},
  });
  const worker = await spawnOne(bench, folder);
  try {
    const gate = join(folder, 'gate');
    const held = (policy: string): string => `apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: held}
workflow:
- step: start
  spec: {policy: {failure: {${policy}}}}
  tool: {kind: probe, file: ${folder}/held, wait_for: ${gate}, label: "{{ execution_id }}"}
`;
    // One step is in flight in each when the database goes, and has its result while it is away.
    const strict = await bench.start(held('mode: fail_fast'));
    const patient = await bench.start(held('retry: {attempts: 8, delay: 0.2, backoff: fixed}'));
    const runs: { ref: EngineRunRef; file: string }[] = [];
    for (let i = 0; i < 3; i += 1) {
      const file = join(folder, `effects-${i}`);
      runs.push({ file, ref: await bench.start(scenario(file, { retries: true, delayMs: 60 })) });
    }
    const began = (): boolean =>
      existsSync(join(folder, 'held')) && Object.keys(countEffects(join(folder, 'held'))).length === 2;
    for (const end = Date.now() + 60_000; !began() && Date.now() < end; ) await sleep(20);
    await killServer(database.dataDir);
    writeFileSync(gate, '');
    await sleep(20_000);
    await database.ensureRunning();
    for (const { ref, file } of runs) await isWhole(bench, ref, file);
    // Whether the end was stored in the moment in which the database came back, or given up, each log is true to itself.
    const ends = async (ref: EngineRunRef): Promise<string[]> => {
      const own = (await bench.ended(ref)).filter(({ eventType }) => /^(Step|Run)(Failed|Completed)$/.test(eventType));
      return own.map(({ eventType, logicalAttemptId, payload }) => {
        const code = (payload?.['error'] as { code: string } | undefined)?.code;
        return `${eventType} ${logicalAttemptId}${code ? ` ${code}` : ''}`;
      });
    };
    const stored = ['StepCompleted 1', 'RunCompleted 1'];
    const given = ['StepFailed 1 WRITE_BUDGET_EXCEEDED', 'RunFailed 1 WRITE_BUDGET_EXCEEDED'];
    const again = ['StepFailed 1 WRITE_BUDGET_EXCEEDED', 'StepCompleted 2', 'RunCompleted 1'];
    expect([stored, given]).toContainEqual(await ends(strict));
    expect([stored, again]).toContainEqual(await ends(patient));
    expect(worker.process.exitCode).toBe(null);
  } finally {
    await worker.stop();
    await bench.close();
    await database.close();
  }
});

// The database dies in the middle of runs, under several workers. TEST_SEED=7 npx vitest run test/chaos/killed-database.test.ts
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { compileSync } from '../../src/compiler/compile.ts';
import type { EngineRunRef } from '../../src/contracts/values.ts';
import { folderArtifacts } from '../../src/engines/native/folder-artifacts.fixture.ts';
import { type EngineBench, openEngine } from '../../src/engines/native/native.fixture.ts';
import { spawnWorker, type WorkerProcess } from '../../src/engines/native/spawn-worker.fixture.ts';
import { cleanServer, temporaryFolder, until } from '../../src/store/embedded/embedded.fixture.ts';
import { openEmbedded } from '../../src/store/embedded/open-embedded.ts';
import { PostgresStore } from '../../src/store/postgres-store.ts';
import { ENGINE_TOOL_FORMS } from '../../src/testing/engine-tools.ts';
import { testSeed } from '../setup/seed.ts';
import { chaosRounds, seededRandom } from './chaos.fixture.ts';
import { killServer } from './kill-server.fixture.ts';

/** Runs begin as long as the database is being killed, so that every kill meets some at every place. */
const MAX_RUNS = 60;

// A step whose end is not stored within its budget fails and is taken again: its effect must be found, not repeated.
const RETRY = 'spec: {policy: {failure: {retry: {attempts: 6, delay: 0.2, backoff: fixed}}}}';
const scenario = (file: string): string => `
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: outage, version: "1"}
workflow:
- {step: start, ${RETRY}, tool: {kind: probe, file: ${file}.reads, delay_ms: 30}, next: {arcs: [{step: compute}]}}
- {step: compute, ${RETRY}, tool: {kind: noop, result: 1}, next: {arcs: [{step: more}]}}
- {step: more, ${RETRY}, tool: {kind: noop, result: "{{ compute + 1 }}"}, next: {arcs: [{step: pay}]}}
- step: pay
  ${RETRY}
  tool: {kind: effect, file: ${file}, label: pay, delay_ms: 60, spec: {timeout: 2}}
  next: {arcs: [{step: many}]}
- step: many
  ${RETRY}
  loop: {in: "{{ range(5) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: effect, file: ${file}, label: "item-{{ iter.n }}", delay_ms: 60, spec: {timeout: 2}}
  next: {arcs: [{step: last}]}
- {step: last, ${RETRY}, tool: {kind: noop, result: "{{ more + (many | length) }}"}}
`;
const LABELS = ['item-0', 'item-1', 'item-2', 'item-3', 'item-4', 'pay'];

async function startRun(bench: EngineBench, folder: string, i: number): Promise<{ ref: EngineRunRef; file: string }> {
  const file = join(folder, `effects-${i}`);
  const compiled = compileSync({ text: scenario(file), file: 'outage.yaml' }, { tools: ENGINE_TOOL_FORMS });
  if (!compiled.ok) throw new Error(JSON.stringify(compiled.problems));
  const planRef = await bench.runtime.plans.keep(compiled);
  const scope = { tenantId: 'acme', projectId: 'main', environmentId: 'test' };
  const context = { ...scope, runId: `outage-${i}-${testSeed}`, targetAdapter: 'native' as const };
  return { file, ref: await bench.runtime.engine.startRun(planRef, context) };
}

async function survives(runAhead: boolean): Promise<void> {
  const random = seededRandom();
  const data = await temporaryFolder();
  cleanServer(join(data, 'pg'));
  const server = await openEmbedded({ folder: data });
  const { host, user, database } = server.config;
  const url = `postgresql://${user}@localhost:5432/${database}?host=${encodeURIComponent(String(host))}`;
  await (await PostgresStore.open({ url, migrate: true })).close();
  const folder = mkdtempSync(join(tmpdir(), 'runledger-outage-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const bench = await openEngine({ url, artifacts: folderArtifacts(folder), worker: false });
  const workers: WorkerProcess[] = [];
  try {
    for (let i = 0; i < 3; i++)
      workers.push(await spawnWorker(url, folder, { leaseMs: 4000, concurrency: 4, runAhead }));
    const runs: { ref: EngineRunRef; file: string }[] = [];
    let isOver = false;
    const feeding = (async () => {
      while (!isOver && runs.length < MAX_RUNS) {
        runs.push(await startRun(bench, folder, runs.length));
        await sleep(40 + random() * 40);
      }
    })();
    for (let round = 0; round < chaosRounds(3); round++) {
      const before = runs.length;
      await until(() => runs.length > before + 3, 60_000);
      await sleep(random() * 300);
      await killServer(server.dataDir);
      await sleep(random() * 1200);
      await server.ensureRunning();
    }
    isOver = true;
    await feeding;
    for (const { ref, file } of runs) {
      // Legal, chained, and decided again the same: the bench looks at all of it.
      const events = await bench.ended(ref);
      const { eventType, payload } = events.at(-1)!;
      expect([ref.runId, eventType, payload?.['result'] ?? payload]).toEqual([ref.runId, 'RunCompleted', { value: 7 }]);
      const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean);
      expect([ref.runId, lines.map((line) => line.split(' ', 1)[0]).sort()]).toEqual([ref.runId, LABELS]);
    }
    for (const {
      process: { exitCode, signalCode },
    } of workers)
      expect([exitCode, signalCode]).toEqual([null, null]);
  } finally {
    await Promise.all(workers.map((worker) => worker.stop()));
    await bench.close();
    await server.close();
  }
}

test(
  'RQ-3.2b WE-1g a database that is killed and started again under three workers: every run ends, every effect happened once (with run-ahead)',
  {
    timeout: 240_000,
  },
  () => survives(true),
);

test(
  'RQ-3.2b WE-1g a database that is killed and started again under three workers: every run ends, every effect happened once (without run-ahead)',
  {
    timeout: 240_000,
  },
  () => survives(false),
);

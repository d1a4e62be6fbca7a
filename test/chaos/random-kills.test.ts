// Workers that are killed at random moments under load. TEST_SEED=7 npx vitest run test/chaos/random-kills.test.ts
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { compileSync } from '../../src/compiler/compile.ts';
import type { EngineRunRef } from '../../src/contracts/values.ts';
import { folderArtifacts } from '../../src/engines/native/folder-artifacts.fixture.ts';
import { openEngine } from '../../src/engines/native/native.fixture.ts';
import { spawnWorker, type WorkerProcess } from '../../src/engines/native/spawn-worker.fixture.ts';
import { ENGINE_TOOL_FORMS } from '../../src/testing/engine-tools.ts';
import { testSeed as seed } from '../setup/seed.ts';

const RUNS = 24;
const KILLS = 6;

/** Numbers in [0, 1) that follow from the seed. */
function random(): () => number {
  let state = seed >>> 0 || 1;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const scenario = (file: string): string => `
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: kills, version: "1"}
workflow:
- {step: start, tool: {kind: probe, file: ${file}.reads, delay_ms: 30}, next: {arcs: [{step: pay}]}}
- step: pay
  tool: {kind: effect, file: ${file}, label: pay, delay_ms: 40, spec: {timeout: 4}}
  next: {arcs: [{step: many}]}
- step: many
  loop: {in: "{{ [0, 1, 2, 3] }}", iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: effect, file: ${file}, label: "item-{{ iter.n }}", delay_ms: 40, spec: {timeout: 4}}
  next: {arcs: [{step: last}]}
- {step: last, tool: {kind: noop, result: "{{ many | length }}"}}
`;

test(`RQ-3.2b WE-1g three workers, killed at random moments under load: every run ends, every effect happened once (seed ${seed})`, {
  timeout: 240_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'runledger-kills-'));
  const bench = await openEngine({ artifacts: folderArtifacts(folder), worker: false });
  const next = random();
  const options = { leaseMs: 1500, concurrency: 6 };
  const workers: WorkerProcess[] = [];
  try {
    for (let i = 0; i < 3; i++) workers.push(await spawnWorker(bench.url, folder, options));
    const runs: { ref: EngineRunRef; file: string }[] = [];
    for (let i = 0; i < RUNS; i++) {
      const file = join(folder, `effects-${i}`);
      const compiled = compileSync({ text: scenario(file), file: 'kills.yaml' }, { tools: ENGINE_TOOL_FORMS });
      if (!compiled.ok) throw new Error(JSON.stringify(compiled.problems));
      const planRef = await bench.runtime.plans.keep(compiled);
      const scope = { tenantId: 'acme', projectId: 'main', environmentId: 'test' };
      const runId = `kills-${i}-${seed}`;
      runs.push({
        file,
        ref: await bench.runtime.engine.startRun(planRef, { ...scope, runId, targetAdapter: 'native' }),
      });
    }
    for (let i = 0; i < KILLS; i++) {
      await sleep(50 + next() * 250);
      const at = Math.floor(next() * workers.length);
      const victim = workers[at]!;
      victim.process.kill('SIGKILL');
      await victim.gone;
      workers[at] = await spawnWorker(bench.url, folder, options);
    }
    for (const { ref, file } of runs) {
      const events = await bench.ended(ref);
      const { eventType, payload } = events.at(-1)!;
      expect([ref.runId, eventType, payload?.['result'] ?? payload]).toEqual([ref.runId, 'RunCompleted', { value: 4 }]);
      const labels = readFileSync(file, 'utf8').split('\n').filter(Boolean);
      const counts = labels.map((line) => line.split(' ', 1)[0]).sort();
      expect([ref.runId, counts]).toEqual([ref.runId, ['item-0', 'item-1', 'item-2', 'item-3', 'pay']]);
    }
  } finally {
    await Promise.all(workers.map((worker) => worker.stop()));
    await bench.close();
    rmSync(folder, { recursive: true, force: true });
  }
});

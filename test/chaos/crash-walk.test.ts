// The crash walk: at every named point a worker is killed, another one finishes, and the log and the world are checked.
// One command: TEST_SEED=7 npx vitest run test/chaos/crash-walk.test.ts
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { compileSync } from '../../src/compiler/compile.ts';
import type { EngineRunRef } from '../../src/contracts/values.ts';
import { folderArtifacts } from '../../src/engines/native/folder-artifacts.fixture.ts';
import { type EngineBench, openEngine } from '../../src/engines/native/native.fixture.ts';
import { spawnWorker } from '../../src/engines/native/spawn-worker.fixture.ts';
import { checkedLog, types } from '../../src/engines/test-bench.fixture.ts';
import { createNativeRuntime } from '../../src/runtime/create-native-runtime.ts';
import { PostgresStore } from '../../src/store/postgres-store.ts';
import { ENGINE_TOOL_FORMS, engineTools } from '../../src/testing/engine-tools.ts';
import { noopTool } from '../../src/tools/noop/noop-tool.ts';
import { testSeed as seed } from '../setup/seed.ts';

const POINTS = [
  'claim.after',
  'commit.before',
  'commit.after',
  'record.after-commit',
  'runner.before-result',
  'step.before-settle',
  'iteration.before-settle',
  'iteration.after-commit',
  'effect.before-attempted',
  'effect.after-attempted',
  'effect.after-call',
  'ahead.before-commit',
  'ahead.after-commit',
] as const;

const LEASE_MS = 1500;

/** A number in [0, 1) that follows from the seed and the name. */
function chance(name: string): number {
  let hash = seed >>> 0;
  for (const letter of name) hash = Math.imul(hash ^ letter.charCodeAt(0), 2_654_435_761) >>> 0;
  return hash / 2 ** 32;
}

const scenario = (file: string): string => `
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: walk, version: "1"}
workflow:
- {step: start, tool: {kind: noop, result: 1}, next: {arcs: [{step: pay}]}}
- step: pay
  tool:
    - {name: read, kind: probe, file: ${file}.reads, label: read}
    - {name: write, kind: effect, file: ${file}, label: pay, result: paid, spec: {timeout: 3}}
  next: {arcs: [{step: many}]}
- step: many
  loop: {in: "{{ [0, 1, 2, 3, 4, 5] }}", iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: effect, file: ${file}, label: "item-{{ iter.n }}", spec: {timeout: 3}}
  next: {spec: {mode: inclusive}, arcs: [{step: left}, {step: right}]}
- {step: left, tool: {kind: noop, result: 2}, next: {arcs: [{step: both}]}}
- {step: right, tool: {kind: noop, result: 3}, next: {arcs: [{step: both}]}}
- {step: both, join: all, tool: {kind: noop, result: "{{ left + right + (many | length) }}"}}
`;

const EFFECTS = ['pay', 'item-0', 'item-1', 'item-2', 'item-3', 'item-4', 'item-5'];

let bench: EngineBench;
let folder: string;
let survivor: { close(): Promise<void> };

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'runledger-walk-'));
  bench = await openEngine({ artifacts: folderArtifacts(folder), worker: false });
  console.log(`crash walk, seed ${seed}`);
});
afterAll(async () => {
  await bench?.close();
  rmSync(folder, { recursive: true, force: true });
});

async function startRun(name: string): Promise<{ ref: EngineRunRef; file: string }> {
  const file = join(folder, `effects-${name}`);
  const compiled = compileSync({ text: scenario(file), file: 'walk.yaml' }, { tools: ENGINE_TOOL_FORMS });
  if (!compiled.ok) throw new Error(JSON.stringify(compiled.problems));
  const planRef = await bench.runtime.plans.keep(compiled);
  const runId = `walk-${name}-${seed}`;
  const scope = { tenantId: 'acme', projectId: 'main', environmentId: 'test' };
  const ref = await bench.runtime.engine.startRun(planRef, { ...scope, runId, targetAdapter: 'native' });
  return { ref, file };
}

/** What happened in the world: every effect once, whatever was killed. */
function countEffects(file: string): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const line of readFileSync(file, 'utf8').split('\n').filter(Boolean)) {
    const label = line.split(' ', 1)[0]!;
    counts[label] = (counts[label] ?? 0) + 1;
  }
  return counts;
}

/** A healthy worker on the same database, which begins when the victims are dead. */
async function startSurvivor(runAhead: boolean): Promise<{ close(): Promise<void> }> {
  const store = await PostgresStore.open({ url: bench.url });
  const runtime = createNativeRuntime({
    store,
    tools: [noopTool(), ...engineTools()],
    artifacts: folderArtifacts(folder),
    leaseMs: LEASE_MS,
    runAhead,
    worker: { pollMs: 50, onError: (error, unit) => console.error(unit, error) },
  });
  return {
    async close() {
      await runtime.close();
      await store.close();
    },
  };
}

describe.each([
  ['with run-ahead', true],
  ['without run-ahead', false],
])(`workers that are killed, %s (seed ${seed})`, (mode, runAhead) => {
  const points = POINTS.filter((point) => runAhead || !point.startsWith('ahead.'));
  const runs = new Map<string, { ref: EngineRunRef; file: string; at: number }>();

  afterAll(() => survivor?.close());

  test('a worker is killed at each point', { timeout: 240_000 }, async () => {
    for (const point of points) {
      const at = 1 + Math.floor(chance(`${mode} ${point}`) * 2);
      const started = await startRun(`${point}-${runAhead}`);
      const victim = await spawnWorker(bench.url, folder, {
        leaseMs: LEASE_MS,
        concurrency: 4,
        kill: { point, at },
        runAhead,
      });
      // A run that ends first has not met the point: that is a mistake of the walk, not a reason to wait.
      const missed = bench.ended(started.ref).then(() => victim.stop());
      const { signal } = await victim.gone;
      missed.catch(() => {});
      expect([point, at, signal]).toEqual([point, at, 'SIGKILL']);
      runs.set(point, { ...started, at });
    }
    survivor = await startSurvivor(runAhead);
  });

  test.each(points)(
    'RQ-3.2b RQ-3.1a after a kill at %s the run ends, its log is legal, and every effect happened once',
    { timeout: 90_000 },
    async (point) => {
      const { ref, file } = runs.get(point)!;
      const events = await bench.ended(ref);
      expect(types(events).at(-1)).toBe('RunCompleted');
      expect(events.at(-1)?.payload?.['result']).toEqual({ value: 11 });
      expect(countEffects(file)).toEqual(Object.fromEntries(EFFECTS.map((label) => [label, 1])));
      const attempts = events.filter((event) => event.eventType === 'StepStarted');
      expect(new Set(attempts.map((event) => `${event.stepId}@${event.logicalAttemptId}`)).size).toBe(attempts.length);
      await checkedLog(bench.store, ref.runId, folderArtifacts(folder));
    },
  );
});

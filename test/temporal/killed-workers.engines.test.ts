// Workers of Temporal that are killed: at every named point, and while an execution hands over to the next one.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { LedgerRecord } from '../../src/contracts/envelope.ts';
import type { EngineRunRef } from '../../src/contracts/values.ts';
import { folderArtifacts } from '../../src/engines/native/folder-artifacts.fixture.ts';
import type { WorkerProcess } from '../../src/engines/native/spawn-worker.fixture.ts';
import { spawnTemporalWorker } from '../../src/engines/temporal/spawn-temporal-worker.fixture.ts';
import { openTemporalBench, type TemporalBench } from '../../src/engines/temporal/temporal.fixture.ts';
import { countEffects, EFFECTS, scenario, TOTAL } from './scenario.fixture.ts';

const POINTS = [
  'temporal.after-claim',
  'temporal.after-unit',
  'commit.before',
  'iteration.before-settle',
  'iteration.after-commit',
  'effect.after-attempted',
  'effect.after-call',
] as const;

const LEASE_MS = 1500;
/** Executions of a few activities, and activities that are missed soon. */
const WORKFLOW = { maxEvents: 40, handOverMs: 1500, heartbeatMs: 1500, retryMs: 100, maxRetryMs: 1000 };

let bench: TemporalBench;
let folder: string;
let workers: WorkerProcess[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'runledger-temporal-kills-'));
  const temporal = { workflow: WORKFLOW, sweepAfterMs: 2000 };
  bench = await openTemporalBench({ artifacts: folderArtifacts(folder), worker: false, leaseMs: LEASE_MS, temporal });
});
afterEach(async () => {
  await Promise.all(workers.map((worker) => worker.stop()));
  workers = [];
});
afterAll(async () => {
  await bench?.close();
  rmSync(folder, { recursive: true, force: true });
});

async function spawn(kill?: { point: string; at: number }): Promise<WorkerProcess> {
  const options = { temporal: bench.temporal, leaseMs: LEASE_MS, concurrency: 4, ...(kill ? { kill } : {}) };
  const worker = await spawnTemporalWorker(bench.url, folder, options);
  workers.push(worker);
  return worker;
}

/** The log of an ended run: legal, chained, decided again the same, and every effect once. */
async function whole(ref: EngineRunRef, file: string): Promise<LedgerRecord[]> {
  const events = await bench.ended(ref);
  const { eventType, payload } = events.at(-1)!;
  expect([eventType, payload?.['result'] ?? payload]).toEqual(['RunCompleted', { value: TOTAL }]);
  expect(countEffects(file)).toEqual(EFFECTS);
  return events;
}

test('ES-1.3a RE-2.4a RE-2.5a RE-2.5c WE-1g RQ-3.2b a worker is killed at each point in the middle of steps and appends, and another one finishes: logs are legal, effects happened once', {
  timeout: 600_000,
}, async () => {
  const runs: { ref: EngineRunRef; file: string }[] = [];
  for (const [i, point] of POINTS.entries()) {
    const file = join(folder, `effects-${point}`);
    runs.push({ file, ref: await bench.start(scenario(file)) });
    const victim = await spawn({ point, at: 1 + (i % 2) });
    expect([point, (await victim.gone).signal]).toEqual([point, 'SIGKILL']);
  }
  await spawn();
  let repeated = 0;
  for (const { ref, file } of runs) {
    const events = await whole(ref, file);
    // What Temporal repeated is no attempt of the step, and no event of its own; engineAttemptId tells of it.
    expect(new Set(events.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(events.length);
    expect(new Set(events.map(({ eventId }) => eventId)).size).toBe(events.length);
    for (const { eventId, logicalAttemptId, engineAttemptId } of events) {
      expect(eventId).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      expect(logicalAttemptId).toBe(1);
      if (engineAttemptId > 1) repeated += 1;
    }
  }
  expect(repeated).toBeGreaterThan(0);
});

test('ES-6d WE-2.1.2c WE-2.1.3b a worker is killed while an execution of the workflow hands over to the next one: nothing is lost, and every execution leads to the run', {
  timeout: 300_000,
}, async () => {
  const file = join(folder, 'effects-hand-over');
  const worker = await spawn();
  const slow = `- step: start
  tool: {kind: noop}
  next: {spec: {mode: inclusive}, arcs: [{step: slow}, {step: quick}]}
- {step: slow, tool: {kind: probe, file: ${file}, label: slow, wait_for: ${file}.gate}, next: {arcs: [{step: end}]}}
- step: quick
  loop: {in: "{{ range(20) | list }}", iterator: n}
  tool: {kind: effect, file: ${file}, label: "item-{{ iter.n }}", spec: {timeout: 2}}
  next: {arcs: [{step: end}]}
- {step: end, join: all, tool: {kind: noop, result: over}}
`;
  const ref = await bench.start(`apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: slow}\nworkflow:\n${slow}`);
  for (const end = Date.now() + 120_000; ; await sleep(5)) {
    const { status, substatus } = await bench.runtime.engine.getRunStatus(ref);
    if (substatus === 'CONTINUE_AS_NEW') break;
    if (status === 'RUNNING' && Date.now() < end) continue;
    const events = await bench.store.readEvents(ref.runId);
    const last = events.map(({ eventType, entity, persistedAt }) => `${persistedAt} ${eventType} ${entity ?? ''}`);
    throw new Error(
      `${status}, but no hand-over was seen: ${JSON.stringify(await bench.store.work.list(ref.runId))}\n${last.join('\n')}`,
    );
  }
  worker.process.kill('SIGKILL');
  await worker.gone;
  writeFileSync(`${file}.gate`, '');
  await spawn();
  const events = await bench.ended(ref);
  expect(events.at(-1)?.eventType).toBe('RunCompleted');
  const labels = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('item-'));
  expect(labels.length).toBe(20);
  const text =
    'select provider_run_id as id from runledger.run_refs join runledger.runs using (run_key) where run_id = $1';
  const found = await bench.store.postgres.query<{ id: string }>({ text }, [ref.runId]);
  expect(found.length).toBeGreaterThan(2);
  for (const { id } of found) {
    const own = { ...ref, runId: 'unknown', providerRunId: id };
    expect(await bench.runtime.engine.getRunStatus(own)).toMatchObject({ runId: ref.runId, status: 'COMPLETED' });
  }
});

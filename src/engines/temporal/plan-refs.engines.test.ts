import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { compiled } from '../../compiler/compile.fixture.ts';
import { isTerminal } from '../../contracts/states.ts';
import type { EngineRunRef, PlanRef } from '../../contracts/values.ts';
import { canonicalJson } from '../../lib/canonical-json.ts';
import { sha256Hex } from '../../lib/hash.ts';
import { memoryArtifacts } from '../../tools/call-context.fixture.ts';
import { playbook } from '../test-bench.fixture.ts';
import { openTemporalBench, type TemporalBench } from './temporal.fixture.ts';

/** Starts runs, and works on none. */
let bench: TemporalBench;
const artifacts = memoryArtifacts();
beforeAll(async () => {
  bench = await openTemporalBench({ worker: false, artifacts });
});
afterAll(() => bench?.close());

const contextOf = (runId: string) =>
  ({ tenantId: 'acme', projectId: 'main', environmentId: 'test', runId, targetAdapter: 'temporal' }) as const;
const ownPlan = (more = '') =>
  compiled(playbook(`- {step: start, tool: {kind: noop}}`, more).replace('name: test', `name: test-${randomUUID()}`));

async function refused(planRef: PlanRef): Promise<string> {
  const runId = randomUUID();
  const error = await bench.runtime.engine.startRun(planRef, contextOf(runId)).catch((thrown: unknown) => thrown);
  expect(await bench.store.findRun(runId)).toBeUndefined();
  return String((error as { code?: string }).code);
}

/** Keeps the bytes under the hash that they have, as a planner of somebody else's would. */
async function keepText(text: string): Promise<PlanRef> {
  const sha256 = sha256Hex(text);
  const { planRef } = ownPlan();
  const { metadata } = JSON.parse(text) as { metadata: { planId: string; planVersion: string } };
  const { planId, planVersion } = metadata;
  await bench.store.work.putPlan({ sha256, planId, planVersion, schemaVersion: planRef.schemaVersion, body: text });
  const { schemaVersion } = planRef;
  return { uri: `runledger-plan:sha256/${sha256}`, sha256, schemaVersion, planId, planVersion };
}

describe('references', () => {
  test('WE-3.1a WE-3.1e a plan itself, and a reference that lacks a part, are refused', async () => {
    const { plan, planRef } = ownPlan();
    expect(await refused(plan as unknown as PlanRef)).toBe('SCHEMA_VALIDATION_FAILED');
    const { schemaVersion: _gone, ...incomplete } = planRef;
    expect(await refused(incomplete as PlanRef)).toBe('SCHEMA_VALIDATION_FAILED');
  });

  test('WE-3.1.1b local files, other schemes, loopback, link-local and metadata addresses are refused', async () => {
    const { planRef } = ownPlan();
    const uris = ['file:///etc/passwd', 'ftp://example.com/p', 'gopher://example.com/p', 'http://127.0.0.1/p'];
    uris.push('http://[::1]/p', 'http://169.254.169.254/p', 'http://2130706433/p', 'http://0x7f.1/p');
    for (const uri of uris) expect(await refused({ ...planRef, uri })).toBe('PLAN_URI_NOT_ALLOWED');
  });

  test('WE-3.2a WE-3.2c a plan that our compiler did not write is checked whole: a field that no step has refuses the start', async () => {
    const { json } = ownPlan();
    const good = await keepText(json);
    const plan = JSON.parse(json) as { steps: Record<string, unknown>[] };
    plan.steps[0]!['surprise'] = true;
    expect(await refused(await keepText(canonicalJson(plan)))).toBe('INVALID_STEP_SCHEMA');
    await expect(bench.runtime.engine.startRun(good, contextOf(randomUUID()))).resolves.toMatchObject({
      provider: 'temporal',
    });
  });

  test('WE-3.2b WE-4a a plan that is made for another engine does not start here', async () => {
    const plan = ownPlan().json.replace('"metadata":{', '"metadata":{"targetAdapter":"conductor",');
    const sorted = canonicalJson(JSON.parse(plan));
    expect(await refused(await keepText(sorted))).toBe('CAPABILITY_NOT_SUPPORTED');
  });

  test('WE-2.1d WE-2.1.2b a run id is used once, and a run that no worker takes says so in a word of the adapter', async () => {
    const planRef = await bench.runtime.plans.keep(ownPlan());
    const runId = randomUUID();
    const ref = await bench.runtime.engine.startRun(planRef, contextOf(runId));
    const again = bench.runtime.engine.startRun(await bench.runtime.plans.keep(ownPlan()), contextOf(runId));
    await expect(again).rejects.toMatchObject({ code: 'RUN_EXISTS' });
    for (const end = Date.now() + 60_000; ; await sleep(200)) {
      const { status, substatus } = await bench.runtime.engine.getRunStatus(ref);
      expect(status).toBe('RUNNING');
      if (substatus === 'temporal/WORKFLOW_TASK_BACKLOG') break;
      if (Date.now() > end) throw new Error(`it says ${substatus}`);
    }
  });
});

describe('a plan that was changed after the start', () => {
  test('WE-3.1c no step starts, the run fails with the code, and an alert has both hashes', async () => {
    const { plan, planRef } = ownPlan();
    await bench.runtime.plans.keep(ownPlanOf(plan, planRef));
    const ref = await bench.runtime.engine.startRun(planRef, contextOf(randomUUID()));
    const text = `update runledger.plans set body = replace(body, 'noop', 'shell') where sha256 = decode($1, 'hex')`;
    await bench.store.postgres.query({ name: 'tamper', text }, [planRef.sha256]);
    const worker = await openTemporalBench({ url: bench.url, artifacts, temporal: bench.temporal });
    try {
      await ended(ref);
    } finally {
      await worker.close();
    }
    const events = await bench.store.readEvents(ref.runId);
    expect(events.at(-1)).toMatchObject({
      eventType: 'RunFailed',
      payload: { error: { code: 'PLAN_INTEGRITY_VALIDATION_FAILED' } },
    });
    expect(events.filter(({ eventType }) => eventType === 'StepStarted')).toEqual([]);
    const alerts = await bench.store.listAlerts({ code: 'PLAN_INTEGRITY_VALIDATION_FAILED' });
    expect(alerts).toContainEqual(
      expect.objectContaining({ severity: 'P1', details: expect.objectContaining({ expected: planRef.sha256 }) }),
    );
  });
});

const ownPlanOf = (plan: unknown, planRef: PlanRef) => ({
  json: canonicalJson(plan),
  sha256: planRef.sha256,
  planRef,
});

async function ended({ runId }: EngineRunRef): Promise<void> {
  for (const end = Date.now() + 60_000; ; await sleep(20)) {
    const run = await bench.store.findRun(runId);
    if (run?.status && isTerminal(run.status)) return;
    if (Date.now() > end) throw new Error(JSON.stringify(await bench.store.work.list(runId)));
  }
}

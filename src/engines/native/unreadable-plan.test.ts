import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { compiled } from '../../compiler/compile.fixture.ts';
import type { LedgerRecord } from '../../contracts/envelope.ts';
import { isTerminal } from '../../contracts/states.ts';
import type { EngineRunRef, PlanRef } from '../../contracts/values.ts';
import { foldWithReport } from '../../kernel/evolve.ts';
import { initialState } from '../../kernel/state.ts';
import { stampEvent } from '../../store/stamp-event.ts';
import { verifyChain } from '../../store/verify-chain.ts';
import { memoryArtifacts } from '../../tools/call-context.fixture.ts';
import { playbook } from '../test-bench.fixture.ts';
import { type EngineBench, openEngine } from './native.fixture.ts';

/** Starts runs, and works on none. */
let bench: EngineBench;
const artifacts = memoryArtifacts();
beforeAll(async () => {
  bench = await openEngine({ worker: false, artifacts });
});
afterAll(() => bench?.close());

const TEXT = playbook(`
- {step: start, tool: {kind: noop}, next: {spec: {mode: inclusive}, arcs: [{step: left}, {step: right}]}}
- {step: left, tool: {kind: noop}}
- {step: right, tool: {kind: noop}}
`);

/** A plan of its own, so that what is done to it is done to nobody else. */
async function start(change: Partial<PlanRef> = {}): Promise<{ ref: EngineRunRef; sha256: string }> {
  const plan = compiled(TEXT.replace('name: test', `name: test-${randomUUID()}`));
  const planRef = await bench.runtime.plans.keep(plan);
  const context = { tenantId: 'acme', projectId: 'main', environmentId: 'test', targetAdapter: 'native' as const };
  const ref = await bench.runtime.engine.startRun({ ...planRef, ...change }, { ...context, runId: randomUUID() });
  return { ref, sha256: plan.sha256 };
}

const sql = (name: string, text: string, values: unknown[]): Promise<unknown> =>
  bench.store.postgres.query({ name, text }, values);
const remove = (sha256: string): Promise<unknown> =>
  sql('remove_plan', `delete from runledger.plans where sha256 = decode($1, 'hex')`, [sha256]);

/** The log after the run has ended, without replaying it: nobody has its plan. */
async function ended({ runId }: EngineRunRef): Promise<LedgerRecord[]> {
  for (const end = Date.now() + 20_000; ; await sleep(10)) {
    const run = await bench.store.findRun(runId);
    if (run?.status && isTerminal(run.status)) break;
    if (Date.now() > end)
      throw new Error(`the run has not ended: ${JSON.stringify(await bench.store.work.list(runId))}`);
  }
  const events = await bench.store.readEvents(runId);
  expect(foldWithReport(initialState(runId, { keepFinished: true }), events).violations).toEqual([]);
  expect(verifyChain(events)).toMatchObject({ ok: true });
  expect(await bench.store.work.list(runId)).toEqual([]);
  return events;
}

/** A worker that has never seen the run before, until the run has ended. */
async function work(ref: EngineRunRef): Promise<LedgerRecord[]> {
  const errors: unknown[] = [];
  const onError = (error: unknown): void => void errors.push(error);
  const engine = await openEngine({ url: bench.url, artifacts, worker: { pollMs: 20, onError } });
  try {
    const events = await ended(ref);
    expect(errors).toEqual([]);
    return events;
  } finally {
    await engine.close();
  }
}

describe('a plan that cannot be read when a worker needs it fails the run with its code', () => {
  test('WE-3.1c one that was deleted, or whose bytes were changed', async () => {
    const gone = await start();
    await remove(gone.sha256);
    expect((await work(gone.ref)).at(-1)).toMatchObject({
      eventType: 'RunFailed',
      payload: { error: { code: 'PLAN_NOT_FOUND', retryable: false } },
    });
    const changed = await start();
    await sql('change_plan', `update runledger.plans set body = body || ' ' where sha256 = decode($1, 'hex')`, [
      changed.sha256,
    ]);
    const events = await work(changed.ref);
    expect(events.at(-1)).toMatchObject({ payload: { error: { code: 'PLAN_INTEGRITY_VALIDATION_FAILED' } } });
    expect(events.map(({ eventType }) => eventType)).not.toContain('StepStarted');
    expect(events.find(({ eventType }) => eventType === 'StepSkipped')?.payload).toMatchObject({ code: 'CANCELLED' });
    const alerts = await bench.store.listAlerts({ code: 'PLAN_INTEGRITY_VALIDATION_FAILED' });
    expect(alerts[0]).toMatchObject({ severity: 'P1', details: { expected: changed.sha256 } });
  });

  test('WE-3.1d one whose reference has expired since', async () => {
    const expiresAt = new Date(Date.now() + 3000).toISOString();
    const expired = await start({ expiresAt });
    await sleep(Date.parse(expiresAt) - Date.now() + 50);
    expect((await work(expired.ref)).at(-1)).toMatchObject({ payload: { error: { code: 'PLAN_EXPIRED' } } });
  });

  test('steps that are under way end with it, and a paused run is left alone until somebody cancels it', async () => {
    const { ref, sha256 } = await start();
    const { engine } = bench.runtime;
    await engine.signal(ref, { signalId: 'p', type: 'PAUSE' });
    await remove(sha256);
    const fresh = await openEngine({ url: bench.url, artifacts, worker: { pollMs: 20 } });
    try {
      expect(await fresh.runtime.engine.getRunStatus(ref)).toMatchObject({ status: 'PAUSED' });
      await expect(fresh.runtime.engine.signal(ref, { signalId: 'r', type: 'RESUME' })).rejects.toMatchObject({
        code: 'PLAN_NOT_FOUND',
      });
      await fresh.runtime.engine.cancelRun(ref);
      expect((await ended(ref)).at(-1)?.eventType).toBe('RunCancelled');
    } finally {
      await fresh.close();
    }
  });

  test('a repair of such a run ends it', async () => {
    const { ref, sha256 } = await start();
    await remove(sha256);
    const fresh = await openEngine({ url: bench.url, artifacts, worker: false });
    try {
      expect(await fresh.runtime.engine.repair(ref.runId)).toBe(0);
      expect((await ended(ref)).at(-1)).toMatchObject({ payload: { error: { code: 'PLAN_NOT_FOUND' } } });
      expect(await fresh.runtime.engine.getRunStatus(ref)).toMatchObject({ status: 'FAILED' });
    } finally {
      await fresh.close();
    }
  });
});

test('a run that nobody asked an engine for can neither be put back to work nor be cancelled, and both say why', async () => {
  const ids = { tenantId: 'acme', projectId: 'main', environmentId: 'test', planId: 'by-hand', planVersion: '1' };
  const run = { runId: randomUUID(), ...ids };
  const emittedAt = new Date().toISOString();
  await bench.store.createRun(run);
  const started = stampEvent(run, { eventType: 'StepStarted', stepId: 'load', logicalAttemptId: 1 }, { emittedAt });
  await bench.store.append([started], { as: 'worker' });
  const { engine } = bench.runtime;
  await expect(engine.repair(run.runId)).rejects.toMatchObject({
    code: 'PLAN_NOT_FOUND',
    message: expect.stringContaining('names no plan'),
  });
  expect(await engine.signal(engine.refOf(run), { signalId: 'c', type: 'CANCEL' })).toMatchObject({
    accepted: false,
    reason: expect.stringContaining('written by hand'),
  });
});

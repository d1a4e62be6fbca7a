import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../test/setup/database.ts';
import type { RunEventWrite } from '../contracts/envelope.ts';
import type { EngineName } from '../contracts/values.ts';
import { runStarted, sampleEvent, sampleRun } from '../testing/sample-events.ts';
import { PostgresStore } from './postgres-store.ts';
import type { RunIdentity } from './sql/read-events.ts';
import type { EventFacts } from './stamp-event.ts';
import type { CommitResult, Lease, WorkCommit } from './work.ts';

let database: TestDatabase;
let store: PostgresStore;
let other: PostgresStore;
beforeAll(async () => {
  database = await createTestDatabase();
  store = await PostgresStore.open({ url: database.url });
  other = await PostgresStore.open({ url: database.url });
});
afterAll(async () => {
  await Promise.all([store.close(), other.close()]);
  await database.drop();
});

type Run = RunIdentity & { readonly leases: readonly Lease[] };

/** A run that has started, with one unit of work. */
async function started(options: { owner?: string; tenantId?: string; engine?: EngineName } = {}): Promise<Run> {
  const run = sampleRun(randomUUID(), options.tenantId === undefined ? {} : { tenantId: options.tenantId });
  const placed = options.engine === undefined ? {} : { engine: options.engine };
  const made = await store.work.startRun({ ...run, ...placed, events: [...run.events!, runStarted(run)] }, [
    { unit: 's:a@1', ...(options.owner === undefined ? {} : { owner: options.owner, leaseMs: 30_000 }) },
  ]);
  const { runId, tenantId, projectId, environmentId, planId, planVersion } = run;
  return { runId, tenantId, projectId, environmentId, planId, planVersion, runKey: made.runKey, leases: made.leases };
}

const event = (run: Run, eventType: string, facts: Partial<EventFacts> = {}): RunEventWrite =>
  sampleEvent(run, { eventType, stepId: 'a', ...facts });
const task = (run: Run, n: number): RunEventWrite =>
  event(run, 'TaskDone', { entity: `a/get:${n}`, payload: { attempts: 1 } });
const commit = (c: WorkCommit, on = store): Promise<CommitResult> => on.work.commit(c);
const outcome = (result: CommitResult): string => (result.ok ? 'ok' : result.reason);
/** Takes everything that is free, and gives the units of one run. */
async function claimOf(run: Run, owner: string, leaseMs = 30_000): Promise<Lease[]> {
  const claimed = await store.work.claim(owner, { limit: 1000, leaseMs });
  return claimed.filter((unit) => unit.runId === run.runId);
}

describe('leases', () => {
  test('RQ-3.2a two workers that claim at once never get the same unit', async () => {
    const runs = await Promise.all(Array.from({ length: 40 }, () => started()));
    const claims = await Promise.all(
      Array.from({ length: 16 }, (_, i) => (i % 2 ? store : other).work.claim(`w${i}`, { limit: 5, leaseMs: 30_000 })),
    );
    const mine = claims.flat().filter((unit) => runs.some((run) => run.runId === unit.runId));
    expect(mine.length).toBe(40);
    expect(new Set(mine.map((unit) => unit.runId)).size).toBe(40);
  });

  test('RQ-3.2a a lease that ended is taken by another worker, and the first one can no longer record a result', async () => {
    const run = await started();
    const [first] = await claimOf(run, 'one', 1);
    await new Promise((resolve) => setTimeout(resolve, 5));
    const [second] = await claimOf(run, 'two');
    expect(second?.fence).toBeGreaterThan(first!.fence);
    const late = await commit({ run, facts: [event(run, 'StepStarted')], work: [{ op: 'check', ...first! }] });
    expect(outcome(late)).toBe('LEASE_LOST');
    const now = await commit({ run, facts: [event(run, 'StepStarted')], work: [{ op: 'check', ...second! }] });
    expect(outcome(now)).toBe('ok');
    expect(await store.work.renew([{ runKey: run.runKey, ...first! }], 1000)).toEqual([{ held: false, stop: false }]);
    expect(await store.work.renew([{ runKey: run.runKey, ...second! }], 1000)).toEqual([{ held: true, stop: false }]);
  });

  test('a unit that was released is free at once, and one that is not due yet is not', async () => {
    const run = await started({ owner: 'me' });
    expect(await claimOf(run, 'you')).toEqual([]);
    await store.work.release([{ runKey: run.runKey, ...run.leases[0]! }]);
    const [taken] = await claimOf(run, 'you');
    expect(taken?.unit).toBe('s:a@1');
    const later = new Date(Date.now() + 60_000).toISOString();
    const parked = await commit({
      run,
      facts: [event(run, 'StepStarted')],
      work: [
        { op: 'delete', ...taken! },
        { op: 'insert', unit: 'w:a/wait:1', dueAt: later },
      ],
    });
    expect(outcome(parked)).toBe('ok');
    expect(await claimOf(run, 'you')).toEqual([]);
    expect(await store.work.wake(run.runId, 'w:a/wait:1')).toBe(true);
    expect((await claimOf(run, 'you')).map(({ unit }) => unit)).toEqual(['w:a/wait:1']);
  });
});

describe('runs of another engine', () => {
  test('its work is not claimed by native workers, rows that follow included, and is taken by name', async () => {
    const run = await started({ engine: 'temporal' });
    expect(await store.findRun(run.runId)).toMatchObject({ engine: 'temporal' });
    expect(await claimOf(run, 'native')).toEqual([]);
    const taken = await store.work.claimUnit(run.runId, 's:a@1', 'me', 30_000);
    if (taken.state !== 'claimed') throw new Error(taken.state);
    expect(taken.unit).toMatchObject({ runId: run.runId, unit: 's:a@1', deliveries: 1, stop: false });
    expect(await store.work.claimUnit(run.runId, 's:a@1', 'you', 30_000)).toMatchObject({ state: 'leased' });
    expect(await store.work.claimUnit(run.runId, 's:none@1', 'you', 30_000)).toEqual({ state: 'gone' });
    expect(await store.work.claimUnit(randomUUID(), 's:a@1', 'you', 30_000)).toEqual({ state: 'gone' });
    const { unit, fence } = taken.unit;
    const next = await commit({
      run,
      facts: [event(run, 'StepStarted')],
      work: [
        { op: 'delete', unit, fence },
        { op: 'insert', unit: 's:b@1' },
        { op: 'insert', unit: 's:c@1', held: true },
        { op: 'insert', unit: 'w:a/wait:1', dueAt: new Date(Date.now() + 60_000).toISOString() },
      ],
    });
    expect(outcome(next)).toBe('ok');
    expect(await claimOf(run, 'native')).toEqual([]);
    expect(await store.work.claimUnit(run.runId, 's:a@1', 'me', 30_000)).toEqual({ state: 'gone' });
    expect(await store.work.claimUnit(run.runId, 's:c@1', 'me', 30_000)).toEqual({ state: 'held' });
    const later = await store.work.claimUnit(run.runId, 'w:a/wait:1', 'me', 30_000);
    expect(later).toMatchObject({ state: 'later' });
    expect((later as { waitMs: number }).waitMs).toBeGreaterThan(30_000);
    const [claimed] = await store.work.claim('t', { limit: 1000, leaseMs: 30_000, engine: 'temporal' });
    expect(claimed).toMatchObject({ runId: run.runId, unit: 's:b@1' });
  });

  test('a run whose unit nobody takes is overdue for its own engine only, and a lease that lasts is not', async () => {
    const run = await started({ engine: 'temporal' });
    await new Promise((resolve) => setTimeout(resolve, 30));
    const options = { olderThanMs: 10, limit: 1000 };
    expect(await store.work.overdue('temporal', options)).toContain(run.runId);
    expect(await store.work.overdue('native', options)).not.toContain(run.runId);
    expect(await store.work.overdue('temporal', { ...options, olderThanMs: 60_000 })).not.toContain(run.runId);
    await store.work.claimUnit(run.runId, 's:a@1', 'me', 30_000);
    expect(await store.work.overdue('temporal', options)).not.toContain(run.runId);
  });

  test('iterations that a loop hands out to nobody come back without a lease', async () => {
    const run = await started({ engine: 'temporal' });
    const loop = { op: 'begin', loop: 'a@1', next: 1, total: 3, inFlight: 1, maxInFlight: 1, skip: [] } as const;
    await commit({
      run,
      facts: [event(run, 'StepStarted')],
      work: [{ op: 'insert', unit: 'i:a@1/0' }],
      loops: [loop],
    });
    const taken = await store.work.claimUnit(run.runId, 'i:a@1/0', 'me', 30_000);
    if (taken.state !== 'claimed') throw new Error(taken.state);
    const { unit, fence } = taken.unit;
    const result = await commit({
      run,
      facts: [task(run, 1)],
      work: [{ op: 'delete', unit, fence }],
      loops: [{ op: 'ended', loop: 'a@1', stop: false }],
    });
    if (!result.ok) throw result.error;
    expect(result.handouts).toEqual([{ unit: 'i:a@1/1', fence: 0 }]);
    expect(await claimOf(run, 'native')).toEqual([]);
    expect(await store.work.claimUnit(run.runId, 'i:a@1/1', 'me', 30_000)).toMatchObject({ state: 'claimed' });
  });
});

describe('commit', () => {
  test('a unit that a commit inserts for its own worker comes back leased, and the settled one is gone', async () => {
    const run = await started({ owner: 'me' });
    const result = await commit({
      run,
      facts: [event(run, 'StepStarted'), event(run, 'StepCompleted')],
      owner: 'me',
      work: [
        { op: 'delete', ...run.leases[0]! },
        { op: 'insert', unit: 's:b@1', lease: true },
        { op: 'insert', unit: 's:c@1' },
      ],
    });
    if (!result.ok) throw result.error;
    expect(result.leases.map(({ unit }) => unit)).toEqual(['s:b@1']);
    expect((await store.work.list(run.runId)).map(({ unit, leaseOwner }) => [unit, leaseOwner])).toEqual([
      ['s:b@1', 'me'],
      ['s:c@1', undefined],
    ]);
    expect((await claimOf(run, 'you')).map(({ unit }) => unit)).toEqual(['s:c@1']);
  });

  test('a commit that is sent again is answered as stored, whatever fence and head say, and changes no work', async () => {
    const run = await started({ owner: 'me' });
    const call: WorkCommit = {
      run,
      facts: [event(run, 'StepStarted'), event(run, 'StepCompleted')],
      expectedHead: 2,
      owner: 'me',
      work: [
        { op: 'delete', ...run.leases[0]! },
        { op: 'insert', unit: 's:b@1', lease: true },
      ],
    };
    const first = await commit(call);
    expect(outcome(first)).toBe('ok');
    await claimOf(run, 'nobody');
    if (first.ok) await store.work.discard({ runKey: run.runKey, ...first.leases[0]! });
    const again = await commit(call, other);
    if (!again.ok) throw again.error;
    expect(again.receipts.every((receipt) => receipt.duplicate)).toBe(true);
    expect(await store.work.list(run.runId)).toEqual([]);
  });

  test('a unit hands its row to the one that follows it under a lease of its own, which the old one does not have', async () => {
    const runs = await Promise.all(Array.from({ length: 5 }, () => started({ owner: 'me' })));
    const results = await Promise.all(
      runs.map((run) =>
        commit({
          run,
          facts: [event(run, 'StepStarted'), event(run, 'StepCompleted')],
          expectedHead: 2,
          owner: 'me',
          leaseMs: 30_000,
          work: [
            { op: 'delete', ...run.leases[0]! },
            { op: 'insert', unit: 's:b@1', lease: true },
          ],
        }),
      ),
    );
    for (const [i, run] of runs.entries()) {
      const result = results[i]!;
      if (!result.ok) throw result.error;
      const [lease] = result.leases;
      expect(result.receipts.map(({ runSeq }) => runSeq)).toEqual([3, 4]);
      expect(lease).toMatchObject({ unit: 's:b@1' });
      expect(await store.work.list(run.runId)).toMatchObject([{ unit: 's:b@1', leaseOwner: 'me', deliveries: 1 }]);
      const renewed = await store.work.renew(
        [
          { runKey: run.runKey, ...lease! },
          { runKey: run.runKey, unit: 's:b@1', fence: run.leases[0]!.fence },
        ],
        30_000,
      );
      expect(renewed.map(({ held }) => held)).toEqual([true, false]);
    }
  });

  test('a run that ends takes its work with it, but not a signal for its children', async () => {
    const run = await started({ owner: 'me' });
    await commit({
      run,
      facts: [event(run, 'StepStarted')],
      work: [
        { op: 'insert', unit: 's:b@1' },
        { op: 'insert', unit: 'x:CANCEL:1' },
      ],
    });
    const result = await commit({
      run,
      facts: [event(run, 'StepCompleted')],
      expectedHead: 3,
      owner: 'me',
      work: [{ op: 'delete', ...run.leases[0]! }, { op: 'clear' }],
    });
    expect(outcome(result)).toBe('ok');
    expect((await store.work.list(run.runId)).map(({ unit }) => unit)).toEqual(['x:CANCEL:1']);
  });

  test('RQ-3.2a of hand-overs that are sent together only those under a lost lease or on an old head are refused', async () => {
    const runs = await Promise.all(Array.from({ length: 12 }, () => started({ owner: 'me' })));
    const results = await Promise.all(
      runs.map((run, i) => {
        const lease = i % 4 === 0 ? { ...run.leases[0]!, fence: 1 } : run.leases[0]!;
        const then = i % 2 === 0 ? ({ op: 'insert', unit: 's:b@1', lease: true } as const) : ({ op: 'clear' } as const);
        const expectedHead = i % 6 === 1 ? 1 : 2;
        const facts = [event(run, 'StepStarted'), event(run, 'StepCompleted')];
        return commit({ run, facts, expectedHead, seenSeq: 2, owner: 'me', work: [{ op: 'delete', ...lease }, then] });
      }),
    );
    const expected = runs.map((_, i) => (i % 4 === 0 ? 'LEASE_LOST' : i % 6 === 1 ? 'HEAD_MOVED' : 'ok'));
    expect(results.map(outcome)).toEqual(expected);
    for (const [i, run] of runs.entries()) {
      const rows = (await store.work.list(run.runId)).map(({ unit }) => unit);
      expect(rows).toEqual(expected[i] !== 'ok' ? ['s:a@1'] : i % 2 === 0 ? ['s:b@1'] : []);
      expect(await store.readEvents(run.runId)).toHaveLength(expected[i] === 'ok' ? 4 : 2);
    }
  });

  test('a decision on an old head is refused with the events that it had not seen', async () => {
    const run = await started({ owner: 'me' });
    await commit({ run, facts: [event(run, 'StepStarted')] });
    const result = await commit({
      run,
      facts: [event(run, 'StepCompleted')],
      expectedHead: 2,
      seenSeq: 2,
      work: [{ op: 'delete', ...run.leases[0]! }],
    });
    expect(result.ok ? 'ok' : [result.reason, result.missing.map((record) => record.eventType)]).toEqual([
      'HEAD_MOVED',
      ['StepStarted'],
    ]);
    expect((await store.work.list(run.runId)).map(({ unit }) => unit)).toEqual(['s:a@1']);
  });

  test('RQ-3.2a the fence is asked before the head and the transition', async () => {
    const run = await started({ owner: 'me' });
    const wrong = { op: 'delete', unit: 's:a@1', fence: run.leases[0]!.fence + 1_000_000 } as const;
    const result = await commit({ run, facts: [event(run, 'StepCompleted')], expectedHead: 1, work: [wrong] });
    expect(outcome(result)).toBe('LEASE_LOST');
  });

  test('NE-5a a worker cannot record what only the control plane may decide', async () => {
    const run = await started({ owner: 'me' });
    const call = { run, facts: [event(run, 'StepScheduled', { stepId: 'b' })] };
    await expect(commit(call)).rejects.toMatchObject({ code: 'EMITTER_NOT_ALLOWED' });
  });

  test('one refused call of a batch leaves its neighbours alone', async () => {
    const runs = await Promise.all(Array.from({ length: 12 }, () => started({ owner: 'me' })));
    const results = await Promise.all(
      runs.map((run, i) => {
        const lease = i % 3 === 0 ? { ...run.leases[0]!, fence: 1 } : run.leases[0]!;
        return commit({
          run,
          facts: [event(run, 'StepStarted')],
          owner: 'me',
          work: [
            { op: 'delete', ...lease },
            { op: 'insert', unit: 's:b@1', lease: true },
          ],
        });
      }),
    );
    expect(results.map(outcome)).toEqual(runs.map((_, i) => (i % 3 === 0 ? 'LEASE_LOST' : 'ok')));
    for (const [i, run] of runs.entries()) {
      const [row] = await store.work.list(run.runId);
      expect(row?.unit).toBe(i % 3 === 0 ? 's:a@1' : 's:b@1');
    }
  });

  test('a paused run hands out nothing until it is let go', async () => {
    const run = await started();
    const paused = event(run, 'RunPaused', { stepId: undefined, payload: {} });
    await commit({ run, decision: [paused], work: [{ op: 'hold' }] });
    expect(await claimOf(run, 'me')).toEqual([]);
    const resumed = event(run, 'RunResumed', { stepId: undefined, payload: {} });
    await commit({ run, decision: [resumed], work: [{ op: 'letGo' }] });
    expect((await claimOf(run, 'me')).map(({ unit }) => unit)).toEqual(['s:a@1']);
  });
});

describe('loops', () => {
  test('every index is handed out once, and exactly one of many workers is told that it was the last', async () => {
    const run = await started({ owner: 'me' });
    const total = 200;
    const begin = await commit({
      run,
      facts: [event(run, 'StepStarted')],
      owner: 'me',
      work: [
        { op: 'delete', ...run.leases[0]! },
        ...Array.from({ length: 8 }, (_, i) => ({ op: 'insert', unit: `i:a@1/${i}`, lease: true }) as const),
      ],
      loops: [{ op: 'begin', loop: 'a@1', next: 8, total, inFlight: 8, maxInFlight: 8, skip: [20, 21] }],
    });
    if (!begin.ok) throw begin.error;
    const seen: string[] = [];
    const ends: string[] = [];
    const work = async (lease: Lease, on: PostgresStore): Promise<void> => {
      let next: Lease | undefined = lease;
      while (next) {
        if (next.unit.startsWith('e:')) {
          ends.push(next.unit);
          return;
        }
        seen.push(next.unit);
        const index = Number(next.unit.split('/')[1]);
        const done = event(run, 'LoopIterationDone', { entity: `a/${index}`, payload: { index } });
        const result: CommitResult = await commit(
          {
            run,
            facts: [done],
            owner: 'me',
            work: [{ op: 'delete', ...next }],
            loops: [{ op: 'ended', loop: 'a@1', stop: false }],
          },
          on,
        );
        if (!result.ok) throw result.error;
        expect(result.handouts.length).toBeLessThanOrEqual(1);
        next = result.handouts[0];
      }
    };
    await Promise.all(begin.leases.map((lease, i) => work(lease, i % 2 ? store : other)));
    expect(seen.length).toBe(total - 2);
    expect(new Set(seen).size).toBe(total - 2);
    expect(ends).toEqual(['e:a@1']);
  });
});

describe('receipts', () => {
  const attempt = (run: Run, key: string, entity = 'a/post:1@1'): RunEventWrite =>
    event(run, 'EffectAttempted', {
      entity,
      payload: { key, connector: 'http', operation: 'post', settledBy: '2026-01-01T00:00:00Z' },
    });

  test('RQ-1.2a one effect of a tenant has one receipt: the second attempt under its key is refused and stores nothing', async () => {
    const [one, two] = [await started({ tenantId: 't1' }), await started({ tenantId: 't1' })];
    expect(outcome(await commit({ run: one, facts: [attempt(one, 'pay:7')] }))).toBe('ok');
    expect(outcome(await commit({ run: two, facts: [attempt(two, 'pay:7')] }))).toBe('EFFECT_TAKEN');
    expect((await store.readEvents(two.runId)).map((record) => record.eventType)).not.toContain('EffectAttempted');
    const third = await started({ tenantId: 't2' });
    expect(outcome(await commit({ run: third, facts: [attempt(third, 'pay:7')] }))).toBe('ok');
  });

  test('RQ-1.2a of many that attempt the same effect at once exactly one is let through', async () => {
    const runs = await Promise.all(Array.from({ length: 10 }, () => started({ tenantId: 't3' })));
    const results = await Promise.all(
      runs.map((run, i) => commit({ run, facts: [attempt(run, 'pay:8')] }, i % 2 ? store : other)),
    );
    expect(results.filter((result) => result.ok).length).toBe(1);
  });

  test('RQ-1.4a the receipt follows its events, and a success is never taken back', async () => {
    const run = await started({ tenantId: 't4' });
    await commit({ run, facts: [attempt(run, 'pay:9'), task(run, 5)] });
    expect((await store.work.findReceipt('t4', 'pay:9'))?.status).toBe('attempted');
    const done = event(run, 'EffectSucceeded', {
      entity: 'a/post:1@1',
      payload: { key: 'pay:9', reversible: true, reverse: { kind: 'http' } },
    });
    await commit({ run, facts: [done] });
    const late = event(run, 'EffectUnknown', { entity: 'a/post:1@1', payload: { key: 'pay:9', reason: 'late' } });
    await commit({ run, facts: [late] });
    const receipt = await store.work.findReceipt('t4', 'pay:9');
    expect(receipt).toMatchObject({ status: 'succeeded', runId: run.runId, path: 'a/post:1' });
    expect(receipt?.details).toMatchObject({ reversible: true, reverse: { kind: 'http' } });
  });
});

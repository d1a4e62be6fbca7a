import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Emitter } from '../contracts/catalogue.ts';
import type { LedgerRecord, RunEventWrite } from '../contracts/envelope.ts';
import type { EventFacts } from '../store/stamp-event.ts';
import type { AppendResult, NewRun, Store } from '../store/store.ts';
import { verifyChain } from '../store/verify-chain.ts';
import { runStarted, sampleError, sampleEvent, sampleRun } from './sample-events.ts';

/** How a store comes into being for the suite. Two stores on one database stand for two processes. */
export interface StoreFactory {
  open(): Promise<{ first: Store; second: Store; close(): Promise<void> }>;
}

/** The behaviour that every store must show. Call it at the top level of a vitest file. */
export function storeSuite(name: string, factory: StoreFactory): void {
  describe(name, () => {
    let store: Store;
    let other: Store;
    let close: () => Promise<void>;
    beforeAll(async () => {
      const opened = await factory.open();
      [store, other, close] = [opened.first, opened.second, opened.close];
    });
    afterAll(() => close?.());

    const newRun = async (overrides: Partial<NewRun> = {}): Promise<NewRun> => {
      const run = sampleRun(randomUUID(), overrides);
      await store.createRun(run);
      return run;
    };
    const runningRun = async (): Promise<NewRun> => {
      const run = await newRun();
      await append(run, [runStarted(run)], 'control');
      return run;
    };
    const append = async (
      _run: NewRun,
      events: RunEventWrite[],
      as: Emitter = 'worker',
      on = store,
    ): Promise<AppendResult> => on.append(events, { as });
    const step = (run: NewRun, eventType: string, facts: Partial<EventFacts> = {}): RunEventWrite =>
      sampleEvent(run, { eventType, stepId: 'model.orders', ...facts });
    const task = (run: NewRun, n: number, size = 10): RunEventWrite =>
      sampleEvent(run, {
        eventType: 'TaskDone',
        stepId: 'fetch',
        entity: `fetch/get:${n}`,
        payload: { attempts: 1, result: { value: 'x'.repeat(size) } },
      });
    const okOf = (result: AppendResult): Extract<AppendResult, { ok: true }> => {
      if (!result.ok) throw result.error;
      return result;
    };
    const codeOf = (result: AppendResult): string => (result.ok ? 'ok' : result.error.code);

    describe('append', () => {
      test('ES-1.1d WE-2.2b the authority assigns runSeq and persistedAt and tells the producer', async () => {
        const run = await runningRun();
        const { receipts } = okOf(await append(run, [step(run, 'StepStarted'), step(run, 'StepCompleted')]));
        expect(receipts.map((r) => r.runSeq)).toEqual([3, 4]);
        const stored = await store.readEvents(run.runId, { afterSeq: 2 });
        expect(stored.map((r) => [r.runSeq, r.persistedAt])).toEqual(receipts.map((r) => [r.runSeq, r.persistedAt]));
      });

      test('ES-1.1d RE-4a a sequence number or store time from a producer is refused', async () => {
        const run = await runningRun();
        const forged = { ...step(run, 'StepStarted'), runSeq: 99 } as RunEventWrite;
        expect(codeOf(await append(run, [forged]))).toBe('SCHEMA_VALIDATION_FAILED');
        const timed = { ...step(run, 'StepStarted'), persistedAt: '2026-01-01T00:00:00Z' } as RunEventWrite;
        expect(codeOf(await append(run, [timed]))).toBe('SCHEMA_VALIDATION_FAILED');
        expect(await store.readEvents(run.runId)).toHaveLength(2);
      });

      test('RE-3.2a NE-2b a duplicate append succeeds, returns the stored metadata, and stores nothing', async () => {
        const run = await runningRun();
        const event = step(run, 'StepStarted');
        const [first] = okOf(await append(run, [event])).receipts;
        const again = okOf(await append(run, [{ ...event, eventId: randomUUID(), emittedAt: '2027-01-01T00:00:00Z' }]));
        expect(again.receipts[0]).toEqual({ ...first, duplicate: true });
        expect(again.stored.map((r) => r.emittedAt)).toEqual([event.emittedAt]);
        expect(await store.readEvents(run.runId, { types: ['StepStarted'] })).toHaveLength(1);
      });

      test('RE-3.2a a duplicate within one call is answered with the record of the first', async () => {
        const run = await runningRun();
        const started = step(run, 'StepStarted');
        const { receipts } = okOf(
          await append(run, [started, { ...started, eventId: randomUUID() }, step(run, 'StepCompleted')]),
        );
        expect(receipts.map((r) => [r.runSeq, r.duplicate])).toEqual([
          [3, false],
          [3, true],
          [4, false],
        ]);
        expect(receipts[1]?.eventId).toBe(started.eventId);
      });

      test('RE-3.2a a call of duplicates succeeds whatever the head says', async () => {
        const run = await runningRun();
        const event = step(run, 'StepStarted');
        await append(run, [event]);
        expect(codeOf(await store.append([event], { as: 'worker', expectedHead: 1 }))).toBe('ok');
      });

      test('RE-3.1b another engine attempt of the same event is a duplicate', async () => {
        const run = await runningRun();
        await append(run, [step(run, 'StepStarted')]);
        const { receipts } = okOf(await append(run, [step(run, 'StepStarted', { engineAttemptId: 7 })]));
        expect(receipts[0]?.duplicate).toBe(true);
      });

      test('ES-1.1a ES-1.1b ES-1.1c WE-2.1d many writers in two processes give one strictly rising sequence without doubles', async () => {
        const run = await runningRun();
        const writers = Array.from({ length: 40 }, (_, w) =>
          Promise.all(
            // Every event is sent by two writers, through both processes.
            Array.from({ length: 10 }, (_, i) =>
              append(run, [task(run, Math.floor(w / 2) * 10 + i + 1)], 'worker', w % 2 ? store : other),
            ),
          ),
        );
        const receipts = (await Promise.all(writers)).flat().flatMap((result) => okOf(result).receipts);
        expect(receipts.filter((r) => !r.duplicate)).toHaveLength(200);
        const records = await store.readEvents(run.runId);
        expect(records.map((r) => r.runSeq)).toEqual(Array.from({ length: 202 }, (_, i) => i + 1));
        expect(new Set(records.map((r) => r.idempotencyKey)).size).toBe(202);
        expect(verifyChain(records)).toMatchObject({ ok: true, records: 202 });
      });

      test('a refused call leaves its neighbours alone', async () => {
        const [good, bad] = [await runningRun(), await runningRun()];
        const results = await store.appendMany([
          { events: [step(good, 'StepStarted')], options: { as: 'worker' } },
          {
            events: [step(bad, 'StepStarted'), step(bad, 'StepSkipped', { payload: { reason: 'no' } })],
            options: { as: 'control' },
          },
          { events: [step(bad, 'StepCompleted')], options: { as: 'worker' } },
          { events: [step(good, 'StepCompleted')], options: { as: 'worker' } },
        ]);
        expect(results.map(codeOf)).toEqual(['ok', 'EMITTER_NOT_ALLOWED', 'INVALID_TRANSITION', 'ok']);
        expect(await store.readEvents(bad.runId)).toHaveLength(2);
        expect(verifyChain(await store.readEvents(good.runId))).toMatchObject({ ok: true, records: 4 });
      });

      test('a decision made on an old head is refused, and facts that commute do not move the head', async () => {
        const run = await runningRun();
        const head = async (): Promise<number> => (await store.findRun(run.runId))?.decidedSeq ?? -1;
        expect(await head()).toBe(2);
        await append(run, [task(run, 1)]);
        expect(await head()).toBe(2);
        const decide = (stepId: string) =>
          store.append([sampleEvent(run, { eventType: 'StepScheduled', stepId })], { as: 'control', expectedHead: 2 });
        const results = (await Promise.all([decide('a'), decide('b')])).map(codeOf);
        expect(results.sort()).toEqual(['HEAD_MOVED', 'ok']);
        expect(await head()).toBe(4);
      });

      test('ES-1.2g NE-5a an event is accepted only from its documented emitter', async () => {
        const run = await runningRun();
        const scheduled = sampleEvent(run, { eventType: 'StepScheduled', stepId: 'a' });
        expect(codeOf(await append(run, [scheduled], 'worker'))).toBe('EMITTER_NOT_ALLOWED');
        expect(codeOf(await append(run, [step(run, 'StepStarted')], 'control'))).toBe('EMITTER_NOT_ALLOWED');
        const signal = sampleEvent(run, {
          eventType: 'SignalAccepted',
          entity: 'signal/s1',
          payload: { signalId: 's1', signalType: 'PAUSE' },
        });
        expect(codeOf(await append(run, [signal], 'control'))).toBe('EMITTER_NOT_ALLOWED');
        expect(codeOf(await append(run, [signal], 'authorization'))).toBe('ok');
        const approved = sampleEvent(run, { eventType: 'RunApproved' });
        expect(codeOf(await append(run, [approved], 'control'))).toBe('EMITTER_NOT_ALLOWED');
        expect(await store.readEvents(run.runId)).toHaveLength(3);
      });

      test('an unknown run, another tenant and a changed plan are refused', async () => {
        const run = await runningRun();
        const ghost = sampleRun(randomUUID());
        expect(codeOf(await append(ghost, [step(ghost, 'StepStarted')]))).toBe('RUN_NOT_FOUND');
        const thief = { ...run, tenantId: 'tenant_evil' };
        expect(codeOf(await append(run, [step(thief, 'StepStarted')]))).toBe('SCHEMA_VALIDATION_FAILED');
        expect(codeOf(await append(run, [step({ ...run, planVersion: '3' }, 'StepStarted')]))).toBe(
          'SCHEMA_VALIDATION_FAILED',
        );
        await expect(store.readEvents(ghost.runId)).rejects.toMatchObject({ code: 'RUN_NOT_FOUND' });
      });

      test('a payload over the limit is refused and one at the limit is stored', async () => {
        const run = await runningRun();
        expect(codeOf(await append(run, [task(run, 1, 256 * 1024)]))).toBe('EVENT_TOO_LARGE');
        expect(codeOf(await append(run, [task(run, 1, 255 * 1024)]))).toBe('ok');
      });

      test('RE-2.3a emittedAt is kept as sent, however wrong the clock, and persistedAt is the store’s', async () => {
        const run = await runningRun();
        const before = Date.now() - 1000;
        const event = sampleEvent(run, { eventType: 'StepStarted', stepId: 'a' }, '1999-12-31T23:59:59.123456789Z');
        await append(run, [event]);
        const [record] = await store.readEvents(run.runId, { afterSeq: 2 });
        expect(record?.emittedAt).toBe('1999-12-31T23:59:59.123456789Z');
        expect(record?.persistedAt).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
        expect(Date.parse(record?.persistedAt ?? '')).toBeGreaterThan(before);
      });

      test('payloads come back as they were sent, odd ones too', async () => {
        const run = await runningRun();
        const odd = {
          value: JSON.parse(
            '{"__proto__":{"polluted":1},"nul":"\\u0000","lone":"\\ud800","quote":"\\"{},\\\\","n":[1e21,-0.5,null]}',
          ),
        };
        await append(
          run,
          [sampleEvent(run, { eventType: 'StepCompleted', stepId: 'x', payload: { result: odd } })],
          'control',
        );
        await append(run, [
          sampleEvent(run, {
            eventType: 'TaskDone',
            stepId: 'x',
            entity: 'x/a:1',
            payload: { attempts: 1, result: odd },
          }),
        ]);
        const [record] = await store.readEvents(run.runId, { types: ['TaskDone'] });
        expect(JSON.stringify(record?.payload)).toContain('"__proto__":{"polluted":1}');
        expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
        expect(verifyChain(await store.readEvents(run.runId))).toMatchObject({ ok: true });
      });
    });

    describe('transitions', () => {
      test('RE-5.3b an invalid transition is refused the same way every time, and nothing is stored', async () => {
        const run = await runningRun();
        const refuse = async () => {
          const result = await append(run, [step(run, 'StepCompleted')]);
          if (result.ok) throw new Error('accepted');
          return { code: result.error.code, details: result.error.details, message: result.error.message };
        };
        const first = await refuse();
        expect(first).toMatchObject({
          code: 'INVALID_TRANSITION',
          details: { expectedState: 'RUNNING', actualState: 'PENDING', attemptedEventType: 'StepCompleted' },
        });
        expect(await refuse()).toEqual(first);
        expect(await store.readEvents(run.runId)).toHaveLength(2);
        await append(run, [step(run, 'StepStarted')]);
        expect(codeOf(await append(run, [step(run, 'StepCompleted')]))).toBe('ok');
      });

      test('RE-5.2a a step attempt moves PENDING to RUNNING to SUCCESS or FAILED, or PENDING to SKIPPED, and no other way', async () => {
        const run = await runningRun();
        const types = ['StepScheduled', 'StepStarted', 'StepCompleted', 'StepFailed', 'StepSkipped'] as const;
        const payloads: Record<string, Record<string, unknown>> = {
          StepFailed: { error: sampleError },
          StepSkipped: { reason: 'no' },
        };
        const emitter = (type: string): Emitter => (type === 'StepStarted' ? 'worker' : 'control');
        const allowed: Record<string, string[]> = {
          '': ['StepScheduled', 'StepStarted', 'StepSkipped'],
          StepScheduled: ['StepStarted', 'StepSkipped'],
          StepStarted: ['StepCompleted', 'StepFailed'],
          'StepStarted StepCompleted': [],
          'StepStarted StepFailed': [],
          StepSkipped: [],
        };
        for (const [history, next] of Object.entries(allowed)) {
          for (const type of types) {
            const stepId = `s-${history}-${type}`.replaceAll(' ', '_');
            const facts = (t: string): RunEventWrite =>
              sampleEvent(run, { eventType: t, stepId, ...(payloads[t] ? { payload: payloads[t] } : {}) });
            const past = history.split(' ').filter(Boolean);
            for (const t of past) expect(codeOf(await append(run, [facts(t)], emitter(t)))).toBe('ok');
            if (past.includes(type)) continue;
            expect(`${history}>${type}: ${codeOf(await append(run, [facts(type)], emitter(type)))}`).toBe(
              `${history}>${type}: ${next.includes(type) ? 'ok' : 'INVALID_TRANSITION'}`,
            );
          }
        }
      });

      test('ES-1.3b a new logical attempt begins at PENDING again', async () => {
        const run = await runningRun();
        await append(run, [step(run, 'StepStarted'), step(run, 'StepFailed', { payload: { error: sampleError } })]);
        expect(codeOf(await append(run, [step(run, 'StepCompleted', { logicalAttemptId: 2 })]))).toBe(
          'INVALID_TRANSITION',
        );
        const second = [
          step(run, 'StepStarted', { logicalAttemptId: 2 }),
          step(run, 'StepCompleted', { logicalAttemptId: 2 }),
        ];
        expect(codeOf(await append(run, second))).toBe('ok');
      });

      test('ES-1.2c ES-1.2d the run moves only along the listed transitions, and a terminal state is final', async () => {
        const event = (run: NewRun, eventType: string, logicalAttemptId = 1): RunEventWrite => {
          const payload = eventType === 'RunStarted' ? runStarted(run).payload : undefined;
          return sampleEvent(run, { eventType, logicalAttemptId, payload });
        };
        const emitter = (type: string): Emitter => (type === 'RunApproved' ? 'planner' : 'control');
        const moves = [
          'RunApproved',
          'RunStarted',
          'RunPaused',
          'RunResumed',
          'RunCompleted',
          'RunFailed',
          'RunCancelled',
        ];
        const paths: [string[], string[]][] = [
          [[], ['RunApproved', 'RunStarted', 'RunFailed', 'RunCancelled']],
          [['RunApproved'], ['RunStarted', 'RunFailed', 'RunCancelled']],
          [['RunStarted'], ['RunPaused', 'RunCompleted', 'RunFailed', 'RunCancelled']],
          [
            ['RunStarted', 'RunPaused'],
            ['RunResumed', 'RunCancelled'],
          ],
          [['RunStarted', 'RunCompleted'], []],
          [['RunStarted', 'RunFailed'], []],
          [['RunStarted', 'RunCancelled'], []],
        ];
        for (const [past, next] of paths) {
          for (const type of moves) {
            const run = await newRun();
            for (const t of past) expect(codeOf(await append(run, [event(run, t)], emitter(t)))).toBe('ok');
            const result = codeOf(await append(run, [event(run, type, 2)], emitter(type)));
            expect(`${past}>${type}: ${result}`).toBe(
              `${past}>${type}: ${next.includes(type) ? 'ok' : 'INVALID_TRANSITION'}`,
            );
          }
        }
      });

      test('a run can be paused twice, and facts marked so are accepted after the end', async () => {
        const run = await runningRun();
        const occurrence = (eventType: string, n: number) => sampleEvent(run, { eventType, logicalAttemptId: n });
        for (const n of [1, 2]) {
          expect(codeOf(await append(run, [occurrence('RunPaused', n), occurrence('RunResumed', n)], 'control'))).toBe(
            'ok',
          );
        }
        await append(run, [occurrence('RunCompleted', 1)], 'control');
        const late = sampleEvent(run, {
          eventType: 'EffectSucceeded',
          stepId: 'a',
          entity: 'a/post:1@1',
          payload: { key: 'k' },
        });
        expect(codeOf(await append(run, [late]))).toBe('ok');
        expect(codeOf(await append(run, [task(run, 1)]))).toBe('INVALID_TRANSITION');
        expect((await store.findRun(run.runId))?.status).toBe('COMPLETED');
      });

      test('of two racing ends of a step exactly one is accepted', async () => {
        const run = await runningRun();
        for (let i = 0; i < 20; i++) {
          const stepId = `race${i}`;
          await append(run, [sampleEvent(run, { eventType: 'StepStarted', stepId })]);
          const ends = await Promise.all([
            append(run, [sampleEvent(run, { eventType: 'StepCompleted', stepId })]),
            append(
              run,
              [sampleEvent(run, { eventType: 'StepFailed', stepId, payload: { error: sampleError } })],
              'worker',
              other,
            ),
          ]);
          expect(ends.map(codeOf).sort()).toEqual(['INVALID_TRANSITION', 'ok']);
        }
      });
    });

    describe('runs', () => {
      test('WE-2.1d creating the same run twice gives one run, and a different run of that id is refused', async () => {
        const run = sampleRun(randomUUID());
        const made = await Promise.all([store.createRun(run), other.createRun(run), store.createRun(run)]);
        expect(made.filter((m) => m.created)).toHaveLength(1);
        expect(await store.readEvents(run.runId)).toHaveLength(1);
        await expect(store.createRun(sampleRun(run.runId, { tenantId: 'other' }))).rejects.toMatchObject({
          code: 'RUN_EXISTS',
        });
      });

      test('ES-3e the same request twice gives one run, and RQ-1.1a so does the same trigger', async () => {
        const key = randomUUID();
        const requests = [1, 2, 3].map(() => sampleRun(randomUUID(), { runRequestId: key }));
        const made = await Promise.all(requests.map((run, i) => (i % 2 ? store : other).createRun(run)));
        expect(new Set(made.map((m) => m.runId)).size).toBe(1);
        expect(made.filter((m) => m.created)).toHaveLength(1);
        const trigger = { type: 'webhook', ref: key };
        const first = await store.createRun(sampleRun(randomUUID(), { trigger }));
        const second = await store.createRun(sampleRun(randomUUID(), { trigger, planVersion: '3' }));
        expect(second).toEqual({ runId: first.runId, created: false });
        const elsewhere = await store.createRun(sampleRun(randomUUID(), { trigger, projectId: 'another' }));
        expect(elsewhere.created).toBe(true);
        expect(await store.findRun(first.runId)).toMatchObject({ triggerType: 'webhook', triggerRef: key });
      });

      test('WE-2.1.3b a run is found by its id and by every id that its engine gave it', async () => {
        const run = await newRun();
        const refs = ['r1', 'r2'].map((providerRunId) => ({
          provider: 'temporal',
          workflowId: run.runId,
          providerRunId,
        }));
        for (const ref of refs) await store.linkProvider(run.runId, ref);
        for (const ref of refs) {
          await store.linkProvider(run.runId, ref);
          expect(await other.findRunByProvider(ref)).toMatchObject({ runId: run.runId, tenantId: run.tenantId });
        }
        const foreign = await newRun();
        await expect(store.linkProvider(foreign.runId, refs[0]!)).rejects.toMatchObject({ code: 'RUN_EXISTS' });
        expect(await store.findRun('nobody\0')).toBeUndefined();
      });

      test('a bad first event creates nothing', async () => {
        const run = sampleRun(randomUUID());
        const broken = { ...run, events: [{ ...(run.events?.[0] as RunEventWrite), payload: {} }] };
        await expect(store.createRun(broken)).rejects.toMatchObject({ code: 'SCHEMA_VALIDATION_FAILED' });
        expect(await store.findRun(run.runId)).toBeUndefined();
      });
    });

    describe('reading', () => {
      const collect = async (runId: string, count: number, on: Store, afterSeq = 0): Promise<LedgerRecord[]> => {
        const seen: LedgerRecord[] = [];
        const stop = new AbortController();
        for await (const record of on.follow(runId, { afterSeq, signal: stop.signal })) {
          seen.push(record);
          if (seen.length === count) stop.abort();
        }
        return seen;
      };

      test('events are read by sequence, type and entity, in pages', async () => {
        const run = await runningRun();
        await append(run, [
          step(run, 'StepStarted'),
          ...[1, 2, 3, 4].map((n) => task(run, n)),
          step(run, 'StepCompleted'),
        ]);
        const seqs = async (query: Parameters<Store['readEvents']>[1]) =>
          (await store.readEvents(run.runId, query)).map((r) => r.runSeq);
        expect(await seqs({ afterSeq: 3, limit: 2 })).toEqual([4, 5]);
        expect(await seqs({ throughSeq: 2 })).toEqual([1, 2]);
        expect(await seqs({ types: ['TaskDone'] })).toEqual([4, 5, 6, 7]);
        expect(await seqs({ entity: 'fetch' })).toEqual([4, 5, 6, 7]);
        expect(await seqs({ entity: 'fetch/get:2' })).toEqual([5]);
        expect(await seqs({ entity: 'fetc' })).toEqual([]);
        await expect(store.readEvents(run.runId, { limit: 0 })).rejects.toMatchObject({ code: 'USAGE' });
      });

      test('RE-2.3a a time window is cut by the store’s time and can be paged', async () => {
        const run = await runningRun();
        await append(run, [task(run, 1), task(run, 2), task(run, 3)]);
        const all = await store.readEvents(run.runId, { afterSeq: 2 });
        const window = { from: all[0]!.persistedAt, to: '2099-01-01T00:00:00Z', types: ['TaskDone'] };
        const mine = (records: LedgerRecord[]) => records.filter((r) => r.runId === run.runId).map((r) => r.runSeq);
        expect(mine(await store.readWindow(window))).toEqual([3, 4, 5]);
        const last = all[0]!;
        expect(mine(await store.readWindow({ ...window, after: last }))).toEqual([4, 5]);
        expect(mine(await store.readWindow({ ...window, tenantId: 'nobody' }))).toEqual([]);
      });

      test('a follower in another process sees every event in order, soon after it is stored', async () => {
        const run = await runningRun();
        const following = collect(run.runId, 52, other);
        for (let i = 1; i <= 50; i++) await append(run, [task(run, i)]);
        expect((await following).map((r) => r.runSeq)).toEqual(Array.from({ length: 52 }, (_, i) => i + 1));
      });

      test('RE-1.3a a reader that stopped goes on behind its checkpoint', async () => {
        const run = await runningRun();
        await append(run, [task(run, 1), task(run, 2)]);
        expect((await collect(run.runId, 2, store, 2)).map((r) => r.runSeq)).toEqual([3, 4]);
      });

      test('ES-4a the stream gives every event of all runs once, each run in order', async () => {
        const runs = await Promise.all([runningRun(), runningRun(), runningRun()]);
        await Promise.all(runs.flatMap((run) => [1, 2, 3, 4, 5].map((n) => append(run, [task(run, n)]))));
        const ids = new Set(runs.map((r) => r.runId));
        const seen = new Map<string, number[]>();
        for (let cursor: Parameters<Store['readStream']>[0], tries = 0; tries < 2000; tries++) {
          const page = await store.readStream(cursor, 100);
          for (const { record } of page) {
            if (ids.has(record.runId)) seen.set(record.runId, [...(seen.get(record.runId) ?? []), record.runSeq]);
          }
          cursor = page.at(-1)?.cursor ?? cursor;
          if ([...seen.values()].flat().length >= 21) break;
        }
        for (const run of runs) expect(seen.get(run.runId)).toEqual([1, 2, 3, 4, 5, 6, 7]);
      });
    });

    describe('snapshots and alerts', () => {
      test('a snapshot never goes back', async () => {
        const run = await newRun();
        const saved = (lastEventSeq: number) => ({
          lastEventSeq,
          state: `state ${lastEventSeq}`,
          snapshot: {
            runId: run.runId,
            status: 'PENDING' as const,
            lastEventSeq,
            steps: [],
            artifacts: [],
            failedSteps: 0,
            metadata: { inconsistent: false, stale: false },
          },
        });
        expect(await store.loadSnapshot(run.runId)).toBeUndefined();
        expect(await store.saveSnapshot(run.runId, saved(5))).toBe(true);
        expect(await other.saveSnapshot(run.runId, saved(4))).toBe(false);
        expect(await other.loadSnapshot(run.runId)).toEqual(saved(5));
      });

      test('RE-5.4a the same finding is raised once', async () => {
        const run = await newRun();
        const alert = {
          code: 'INVALID_TRANSITION',
          severity: 'P2' as const,
          message: 'ignored',
          dedupeKey: `x/${run.runId}`,
          runId: run.runId,
        };
        const raised = await Promise.all([store.raiseAlert(alert), other.raiseAlert(alert), store.raiseAlert(alert)]);
        expect(raised.filter(Boolean)).toHaveLength(1);
        expect(await store.listAlerts({ runId: run.runId })).toMatchObject([
          { code: 'INVALID_TRANSITION', runId: run.runId },
        ]);
      });
    });

    describe('erasure', () => {
      test('an erased payload is gone, the chain still verifies, and the log says what happened', async () => {
        const run = await runningRun();
        await append(run, [task(run, 1), task(run, 2)]);
        const receipt = await store.erase(run.runId, {
          runSeqs: [3],
          reason: 'asked for',
          by: 'dpo',
          emittedAt: '2026-03-01T00:00:00Z',
        });
        const records = await store.readEvents(run.runId);
        expect(records[2]).toMatchObject({ runSeq: 3, erased: true });
        expect(records[2]?.payload).toBeUndefined();
        expect(records[3]?.payload).toBeDefined();
        expect(records.at(-1)).toMatchObject({ eventType: 'PayloadErased', runSeq: receipt.runSeq });
        expect(verifyChain(records)).toMatchObject({ ok: true, erased: [3] });
        const again = store.erase(run.runId, { runSeqs: [3], reason: 'x', emittedAt: '2026-03-01T00:00:00Z' });
        await expect(again).rejects.toMatchObject({ code: 'PAYLOAD_ERASED' });
        const proof = store.erase(run.runId, {
          runSeqs: [receipt.runSeq],
          reason: 'x',
          emittedAt: '2026-03-01T00:00:00Z',
        });
        await expect(proof).rejects.toMatchObject({ code: 'USAGE' });
      });

      test('two erasures at once both stand, and a finished run can be erased', async () => {
        const run = await runningRun();
        await append(run, [task(run, 1), task(run, 2)]);
        await append(run, [sampleEvent(run, { eventType: 'RunCompleted' })], 'control');
        const at = '2026-03-01T00:00:00Z';
        await Promise.all([
          store.erase(run.runId, { runSeqs: [3], reason: 'a', emittedAt: at }),
          other.erase(run.runId, { runSeqs: [4], reason: 'b', emittedAt: at }),
        ]);
        expect(verifyChain(await store.readEvents(run.runId))).toMatchObject({ ok: true, erased: [3, 4] });
      });
    });
  });
}

import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../test/setup/database.ts';
import { CATALOGUE, type EventType } from '../contracts/catalogue.ts';
import type { RunEventWrite } from '../contracts/envelope.ts';
import { runStarted, sampleError, sampleEvent, sampleRun } from '../testing/sample-events.ts';
import { PostgresStore } from './postgres-store.ts';
import { type PreparedEvent, prepareEvent } from './prepared-event.ts';
import { commitWork, type PreparedCommit } from './sql/commit-work.ts';
import type { NewRun } from './store.ts';
import { verifyChain } from './verify-chain.ts';

let database: TestDatabase;
let store: PostgresStore;
let client: pg.Client;
beforeAll(async () => {
  database = await createTestDatabase();
  store = await PostgresStore.open({ url: database.url });
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await store.close();
  await database.drop();
});

const PAYLOADS: Partial<Record<EventType, Record<string, unknown>>> = {
  StepFailed: { error: sampleError },
  StepSkipped: { reason: 'not needed' },
};
const RUN_TYPES = ['RunPaused', 'RunResumed', 'RunCompleted'] as const;
const STEP_TYPES = ['StepScheduled', 'StepStarted', 'StepCompleted', 'StepFailed', 'StepSkipped'] as const;

interface Fact {
  readonly type: (typeof RUN_TYPES)[number] | (typeof STEP_TYPES)[number];
  readonly step: string;
  readonly attempt: number;
}

const facts = (most: number): fc.Arbitrary<Fact[]> =>
  fc.array(
    fc.record({
      // Steps come more often than what ends or pauses the run.
      type: fc.constantFrom(...STEP_TYPES, ...STEP_TYPES, ...STEP_TYPES, ...RUN_TYPES),
      step: fc.constantFrom('a', 'b'),
      attempt: fc.constantFrom(1, 1, 2),
    }),
    { minLength: 1, maxLength: most },
  );

function eventOf(run: NewRun, { type, step, attempt }: Fact): RunEventWrite {
  const isRun = (RUN_TYPES as readonly string[]).includes(type);
  return sampleEvent(run, {
    eventType: type,
    logicalAttemptId: attempt,
    ...(isRun ? {} : { stepId: step }),
    ...(PAYLOADS[type] ? { payload: PAYLOADS[type] } : {}),
  });
}

function prepared(event: RunEventWrite): PreparedEvent {
  const as = CATALOGUE[event.eventType as EventType].emitters[0]!;
  return prepareEvent(event, { as, maxEventBytes: 10_000 });
}

interface Held {
  readonly run: NewRun;
  readonly runKey: number;
  readonly fence: number;
}

async function started(): Promise<Held> {
  const run = sampleRun(randomUUID());
  const made = await store.work.startRun({ ...run, events: [...run.events!, runStarted(run)] }, [
    { unit: 's:a@1', owner: 'me', leaseMs: 30_000 },
  ]);
  return { run, runKey: made.runKey, fence: made.leases[0]!.fence };
}

/** What is stored of a run, without what is random. */
async function stored({ run, runKey }: Held): Promise<Record<string, unknown>> {
  const { rows } = await client.query(
    `select r.status, r.last_seq, r.decided_seq, r.stream_era, w.unit, w.lease_owner, w.deliveries,
            r.chain_head = (select chain_hash from runledger.run_events e where e.run_key = r.run_key order by run_seq desc limit 1) as is_head,
            r.last_persisted_at = (select max(persisted_at) from runledger.run_events e where e.run_key = r.run_key) as is_last
       from runledger.runs r left join runledger.work w using (run_key) where r.run_key = $1`,
    [runKey],
  );
  const records = await store.readEvents(run.runId);
  expect(verifyChain(records).ok).toBe(true);
  return {
    ...rows[0],
    records: records.map(({ eventType, stepId, logicalAttemptId }) => [eventType, stepId, logicalAttemptId]),
  };
}

interface Ending {
  readonly held: Held;
  readonly given: readonly Fact[];
  readonly next: string | undefined;
  /** So far behind the head is what it was decided on. */
  readonly behind?: number;
}

/** Commits the facts as the end of the runs' units; `asked` are the statements that it took. */
async function commit(endings: readonly Ending[], { isAlone }: { isAlone: boolean }) {
  const calls = endings.map(async ({ held, given, next, behind = 0 }): Promise<PreparedCommit> => {
    const { decidedSeq } = (await store.findRun(held.run.runId))!;
    return {
      runKey: held.runKey,
      events: given.map((fact) => prepared(eventOf(held.run, fact))),
      expectedHead: decidedSeq - behind,
      owner: 'me',
      tenantId: held.run.tenantId,
      leaseMs: 30_000,
      work: [
        { op: 'delete', unit: 's:a@1', fence: held.fence },
        next === undefined ? { op: 'clear' } : { op: 'insert', unit: next, lease: true },
      ],
      loops: [],
      receipts: [],
    };
  });
  const asked: (string | undefined)[] = [];
  const answers = await commitWork(
    (statement, values) => {
      asked.push(statement.name);
      return store.postgres.query(statement, values);
    },
    await Promise.all(calls),
    { isAlone },
  );
  return { answers, asked };
}

async function startedWith(before: readonly Fact[]): Promise<Held> {
  const held = await started();
  for (const fact of before) {
    await store.append([eventOf(held.run, fact)], { as: CATALOGUE[fact.type].emitters[0]! });
  }
  return held;
}

const told = (answer: Awaited<ReturnType<typeof commit>>['answers'][number]) =>
  answer.ok
    ? { seqs: answer.seqs, fresh: answer.fresh, leases: answer.leases?.map(({ unit }) => unit) }
    : { code: answer.error.code, details: { ...answer.error.details, runId: '' } };

for (const [count, numRuns, statement] of [
  [1, 150, 'hand_over_one'],
  [3, 60, 'hand_over_work'],
] as const) {
  test(`RE-3.2a the ends of units of ${count} run(s) are stored, refused and answered as the long way does it, whatever the events and the logs before them`, async () => {
    let plain = 0;
    const one = fc.record({
      before: facts(count === 1 ? 4 : 1),
      given: facts(count === 1 ? 6 : 2),
      ends: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(one, { minLength: count, maxLength: count }), async (cases) => {
        const endings = () =>
          Promise.all(
            cases.map(async ({ before, given, ends }): Promise<Ending> => {
              return { held: await startedWith(before), given, next: ends ? undefined : 's:b@1' };
            }),
          );
        const [shorts, longs] = [await endings(), await endings()];
        const short = await commit(shorts, { isAlone: true });
        const long = await commit(longs, { isAlone: false });
        expect(short.answers.map(told)).toEqual(long.answers.map(told));
        for (const [i, { held }] of shorts.entries()) expect(await stored(held)).toEqual(await stored(longs[i]!.held));
        // What the long way takes as new goes the short way: otherwise every step would be stored twice as slowly.
        const isNew = long.answers.every((answer) => answer.ok && !answer.fresh.includes(false));
        if (isNew) expect(short.asked).toEqual([statement]);
        if (isNew) plain += 1;
      }),
      { numRuns },
    );
    expect(plain).toBeGreaterThan(0);
  });
}

test('RQ-3.2a a lone call under another fence, or on a head that moved, changes nothing and says why', async () => {
  const held = await started();
  const before = await stored(held);
  const given = [{ type: 'StepStarted', step: 'a', attempt: 1 }] as const;
  for (const next of ['s:b@1', undefined]) {
    const other = { ...held, fence: held.fence + 1 };
    const [lost] = (await commit([{ held: other, given, next }], { isAlone: true })).answers;
    expect(lost).toMatchObject({ ok: false, reason: 'LEASE_LOST' });
    const [late] = (await commit([{ held, given, next, behind: 1 }], { isAlone: true })).answers;
    expect(late).toMatchObject({ ok: false, error: { code: 'HEAD_MOVED' } });
  }
  expect(await stored(held)).toEqual(before);
});

test('after the clock was set back a run keeps its time, its neighbours theirs, and leases last no longer than they should', async () => {
  const given = [{ type: 'StepStarted', step: 'a', attempt: 1 }] as const;
  for (const count of [1, 3]) {
    const helds = await Promise.all(Array.from({ length: count }, started));
    const keys = helds.map(({ runKey }) => runKey);
    const ahead = `clock_timestamp() + interval '1 hour'`;
    await client.query(`update runledger.runs set last_persisted_at = ${ahead} where run_key = $1`, [keys[0]]);
    const endings = helds.map((held): Ending => ({ held, given, next: 's:b@1' }));
    const { answers } = await commit(endings, { isAlone: true });
    expect(answers.map(({ ok }) => ok)).toEqual(helds.map(() => true));
    for (const held of helds) expect(await stored(held)).toMatchObject({ unit: 's:b@1', is_head: true, is_last: true });
    const { rows } = await client.query(
      `select r.last_persisted_at > clock_timestamp() as is_ahead, w.available_at < clock_timestamp() + interval '1 minute' as is_short
         from unnest($1::bigint[]) with ordinality k(run_key, ord) join runledger.runs r using (run_key) join runledger.work w using (run_key)
        order by k.ord`,
      [keys],
    );
    expect(rows).toEqual(keys.map((_, i) => ({ is_ahead: i === 0, is_short: true })));
  }
});

test('a run that is there already, or whose first events are refused, is not started a second time', async () => {
  const run = sampleRun(randomUUID(), { runRequestId: randomUUID() });
  const work = [{ unit: 's:a@1', owner: 'me', leaseMs: 30_000 }];
  const first = await store.work.startRun({ ...run, events: [...run.events!, runStarted(run)] }, work);
  const again = await store.work.startRun({ ...run, events: [...run.events!, runStarted(run)] }, work);
  expect(again).toMatchObject({ runId: run.runId, created: false, runKey: first.runKey, leases: [] });
  const other = sampleRun(randomUUID(), { runRequestId: run.runRequestId! });
  expect(await store.work.startRun(other, work)).toMatchObject({ runId: run.runId, created: false });
  const ended = sampleRun(randomUUID());
  const events = [...ended.events!, sampleEvent(ended, { eventType: 'RunResumed' })];
  await expect(store.work.startRun({ ...ended, events }, work)).rejects.toMatchObject({ code: 'INVALID_TRANSITION' });
  expect(await store.findRun(ended.runId)).toBeUndefined();
});

test('a run whose key lies in a range without a partition is started all the same', async () => {
  await client.query(`alter table runledger.runs alter column run_key restart with 700001`);
  const held = await started();
  expect(held.runKey).toBeGreaterThan(700_000);
  expect(await stored(held)).toMatchObject({ last_seq: '2', unit: 's:a@1', is_head: true });
});

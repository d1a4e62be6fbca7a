import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../../test/setup/database.ts';
import type { LedgerRecord } from '../../contracts/envelope.ts';
import { armFaultPoints } from '../../lib/fault-point.ts';
import { memoryArtifacts } from '../../tools/call-context.fixture.ts';
import { noopTool } from '../../tools/noop/noop-tool.ts';
import { PostgresTool } from '../../tools/postgres/postgres-tool.ts';
import type { StartOptions } from '../engine.ts';
import { playbook } from '../test-bench.fixture.ts';
import { of } from '../watching.fixture.ts';
import { type EngineBench, openEngine } from './native.fixture.ts';

let queue: TestDatabase;
let client: pg.Client;
let starter: EngineBench;
const artifacts = memoryArtifacts();
beforeAll(async () => {
  queue = await createTestDatabase();
  client = new pg.Client({ connectionString: queue.url });
  await client.connect();
  starter = await openEngine({ worker: false, artifacts });
});
afterAll(async () => {
  await starter?.close();
  await client?.end();
  await queue?.drop();
});
let disarm: (() => void) | undefined;
afterEach(() => disarm?.());

const JOBS = 25;
beforeEach(async () => {
  await client.query(
    `drop table if exists jobs; create table jobs (id int primary key, n int, taken int default 0, done int default 0)`,
  );
  await client.query(`insert into jobs (id, n) select i, i from generate_series(1, ${JOBS}) i`);
});

/** A worker on the database of the runs, which knows the queue by its name. */
const worker = (): Promise<EngineBench> =>
  openEngine({
    url: starter.url,
    artifacts,
    tools: [noopTool(), new PostgresTool()],
    secrets: { resolve: async () => queue.url },
    worker: { pollMs: 20, drainMs: 0 },
  });

const CLAIM = `UPDATE jobs SET taken = taken + 1 WHERE id IN
  (SELECT id FROM jobs WHERE taken = 0 ORDER BY id LIMIT {{ iter.frame.max_rows }} FOR UPDATE SKIP LOCKED) RETURNING id, n`;
const drain = (tool: string, more = '', frame = 'max_rows: 4', timeout = 60): string =>
  playbook(`
- step: drain
  ${more}
  loop:
    iterator: row
    cursor: {kind: postgres, auth: queue, claim: ${JSON.stringify(CLAIM)}, options: {timeout: ${timeout}}}
    spec: {mode: cursor, max_in_flight: 3, frame: {${frame}}}
  tool: ${tool}
  next: {arcs: [{step: last, when: "{{ event.name == 'loop.done' }}"}]}
- {step: last, tool: {kind: noop, result: "{{ [drain | length, drain.count, drain.failed] }}"}}
`);
const mark = (timeout = 60): string =>
  `{kind: postgres, auth: queue, command: "UPDATE jobs SET done = done + 1 WHERE id = {{ iter.row.id }} RETURNING n", spec: {timeout: ${timeout}}}`;

async function run(text: string, options: StartOptions = {}): Promise<LedgerRecord[]> {
  const engine = await worker();
  try {
    return await engine.run(text, options);
  } finally {
    await engine.close();
  }
}
const counts = async (): Promise<unknown[]> =>
  (await client.query('select taken, done, count(*)::int from jobs group by taken, done order by 1, 2')).rows.map(
    Object.values,
  );

test('NE-D1 a cursor is claimed again until it gives nothing, and every row of every frame is worked on once', async () => {
  const events = await run(drain(mark()));
  expect(events.at(-1)).toMatchObject({ eventType: 'RunCompleted', payload: { result: { value: [JOBS, JOBS, 0] } } });
  expect(await counts()).toEqual([[1, 1, JOBS]]);
  const done = of(events, 'LoopIterationDone');
  const frames = done.filter(({ payload }) => payload?.['exhausted'] !== true);
  expect(frames.map(({ payload }) => payload?.['rows']).sort()).toEqual([1, 4, 4, 4, 4, 4, 4]);
  expect(done.some(({ payload }) => payload?.['exhausted'] === true)).toBe(true);
  expect(of(events, 'LoopDone')[0]?.payload).toMatchObject({ count: JOBS, failed: 0 });
  // A claim changes the world, so it is announced and told like any other write.
  expect(of(events, 'EffectSucceeded').filter(({ entity }) => entity?.includes('cursor_claim')).length).toBe(
    done.length,
  );
});

test('a frame can be worked on as a whole', async () => {
  const events = await run(
    drain('{kind: noop, result: "{{ iter.row | map(attribute=\'n\') | sum }}"}', '', 'max_rows: 10, process: frame'),
  );
  expect(events.at(-1)?.payload?.['result']).toEqual({ value: [3, 3, 0] });
  const [loop] = of(events, 'LoopDone');
  const sums = (loop!.payload!['result'] as { value: number[] }).value;
  expect(sums.reduce((a, b) => a + b, 0)).toBe((JOBS * (JOBS + 1)) / 2);
});

test('an empty queue is a loop without rows, and a claim that fails fails the step, also where failures are passed over', async () => {
  await client.query('update jobs set taken = 1');
  expect((await run(drain(mark()))).at(-1)?.payload?.['result']).toEqual({ value: [0, 0, 0] });
  await client.query('drop table jobs');
  expect((await run(drain(mark()))).at(-1)).toMatchObject({
    eventType: 'RunFailed',
    payload: { error: { code: 'LOOP_ITERATIONS_FAILED', message: expect.stringContaining('jobs') } },
  });
  const passed = await run(drain(mark(), 'spec: {policy: {failure: {mode: best_effort}}}'));
  expect(passed.at(-1)?.eventType).toBe('RunCompleted');
  expect(of(passed, 'LoopIterationFailed').length).toBeLessThanOrEqual(3);
});

test('a row that fails ends its frame and the loop, or is passed over and counted, as the step says', async () => {
  const picky = '{kind: noop, result: "{{ 10 // (iter.row.n - 6) }}"}';
  const failed = await run(drain(picky));
  expect(failed.at(-1)).toMatchObject({
    eventType: 'RunFailed',
    payload: { error: { code: 'LOOP_ITERATIONS_FAILED' } },
  });
  await client.query('update jobs set taken = 0');
  const passed = await run(drain(picky, 'spec: {policy: {failure: {mode: best_effort}}}'));
  expect(passed.at(-1)?.eventType).toBe('RunCompleted');
  expect(of(passed, 'LoopDone')[0]?.payload).toMatchObject({ failed: 1 });
  // The rows behind it in its frame were not left out.
  expect(
    of(passed, 'TaskStarted').filter(({ entity }) => entity?.includes('drain/') && entity.includes('/task_0:')).length,
  ).toBe(JOBS);
});

test.each(['effect.after-call', 'effect.after-attempted', 'iteration.before-settle'])(
  'a worker that stops at %s loses no row and works on none twice',
  async (point) => {
    const ref = await starter.start(drain(mark(3), '', 'max_rows: 4', 3));
    let reached = 0;
    let letGo = (): void => {};
    const gate = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    disarm = armFaultPoints(async (name) => {
      if (name !== point) return;
      reached += 1;
      if (reached === 3) await gate;
    });
    const first = await worker();
    for (const end = Date.now() + 20_000; reached < 3 && Date.now() < end; ) await sleep(5);
    const closing = first.close();
    await sleep(50);
    letGo();
    await closing;
    const second = await worker();
    try {
      const events = await second.ended(ref);
      expect(events.at(-1)).toMatchObject({
        eventType: 'RunCompleted',
        payload: { result: { value: [JOBS, JOBS, 0] } },
      });
      expect(await counts()).toEqual([[1, 1, JOBS]]);
    } finally {
      await second.close();
    }
  },
);

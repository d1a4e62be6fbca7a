import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { NewRun } from '../store/store.ts';
import { sampleError } from '../testing/sample-events.ts';
import {
  alertsOf,
  appendAll,
  forge,
  openBench,
  type ProjectorBench,
  runningRun,
  savedSnapshot,
  stepOf,
  wholeProjection,
} from './projector.fixture.ts';

let bench: ProjectorBench;
beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench?.close());

type Message = { readonly type: string; readonly [field: string]: unknown };
interface Running {
  readonly child: ChildProcess;
  readonly messages: Message[];
  said(type: string): Promise<Message>;
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>;
}

const children: Running[] = [];
afterEach(() => Promise.all(children.splice(0).map((running) => running.end('SIGKILL'))));

function startProjector(options: { hang?: boolean } = {}): Running {
  const script = fileURLToPath(new URL('./projector-process.fixture.ts', import.meta.url));
  const child = spawn(process.execPath, ['--import', 'tsx', script, JSON.stringify({ url: bench.url, ...options })], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const messages: Message[] = [];
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  createInterface({ input: child.stdout! }).on('line', (line) => messages.push(JSON.parse(line) as Message));
  const find = (type: string) => messages.find((message) => message.type === type);
  const running = {
    child,
    messages,
    async said(type: string) {
      await expect.poll(() => find(type), { timeout: 60_000, interval: 10 }).toBeDefined();
      return find(type) as Message;
    },
    async end(signal: 'SIGTERM' | 'SIGKILL') {
      if (child.exitCode === null && child.signalCode === null) child.kill(signal);
      await ended;
    },
  };
  children.push(running);
  return running;
}

async function expectProjected(runs: readonly NewRun[], seq: number): Promise<void> {
  await expect
    .poll(
      async () => {
        const saved = await Promise.all(runs.map((run) => bench.store.loadSnapshot(run.runId)));
        return saved.filter((one) => one?.lastEventSeq === seq).length;
      },
      { timeout: 60_000, interval: 50 },
    )
    .toBe(runs.length);
  for (const run of runs)
    expect(await savedSnapshot(bench.store, run)).toEqual(await wholeProjection(bench.store, run));
}

const INVALID = [{ type: 'RunCompleted' }, { type: 'RunFailed', payload: { error: sampleError } }];

test('ES-1.5d RE-5.4a a projector that is killed in the middle of a batch leaves its runs to the others, from their watermark', async () => {
  const runs = await Promise.all(Array.from({ length: 30 }, () => runningRun(bench.store)));
  const first = startProjector();
  await expectProjected(runs, 2);
  await first.end('SIGTERM');
  for (const run of runs) await forge(bench.store, run, INVALID);

  const hanging = startProjector({ hang: true });
  const { runKeys } = await hanging.said('hanging');
  expect((runKeys as number[]).length).toBeGreaterThan(0);
  const others = [startProjector(), startProjector()];
  await Promise.all(others.map((other) => other.said('started')));
  // What the hanging one has claimed nobody else touches, and nothing of it is to be seen.
  const claimed = await bench.store.projections.claim(runKeys as number[], async (claim) => claim.stands);
  expect(claimed.map((stand) => [stand.claimed, stand.watermark])).toEqual((runKeys as number[]).map(() => [false, 2]));
  await hanging.end('SIGKILL');
  await expectProjected(runs, 4);
  await Promise.all(others.map((other) => other.end('SIGTERM')));
  const reports = await Promise.all(others.map((other) => other.said('stopped')));
  expect(reports.reduce((sum, report) => sum + (report['events'] as number), 0)).toBe(30 * 2);
  for (const run of runs) expect(await alertsOf(bench.store, run, 'INVALID_TRANSITION')).toHaveLength(1);
}, 180_000);

test('projectors that are killed again and again while the log grows end with the right snapshots and no double alerts', async () => {
  const runs = await Promise.all(Array.from({ length: 20 }, () => runningRun(bench.store)));
  let steady = startProjector();
  let victim = startProjector();
  await Promise.all([steady.said('started'), victim.said('started')]);
  for (let round = 0; round < 4; round++) {
    for (const run of runs) await appendAll(bench.store, stepOf(run, `s${round}`));
    await victim.end('SIGKILL');
    [steady, victim] = [startProjector(), steady];
    await steady.said('started');
  }
  for (const run of runs) await forge(bench.store, run, INVALID);
  await expectProjected(runs, 12);
  await Promise.all([steady.end('SIGTERM'), victim.end('SIGTERM')]);
  for (const run of runs) expect(await alertsOf(bench.store, run, 'INVALID_TRANSITION')).toHaveLength(1);
  for (const child of children) expect(child.messages.filter((message) => message.type === 'error')).toEqual([]);
}, 180_000);

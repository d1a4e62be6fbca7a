import { setTimeout as sleep } from 'node:timers/promises';
import Type from 'typebox';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../../test/setup/database.ts';
import { compiled } from '../../compiler/compile.fixture.ts';
import { isTerminal } from '../../contracts/states.ts';
import { createNativeRuntime, type NativeRuntime } from '../../runtime/create-native-runtime.ts';
import { PostgresStore } from '../../store/postgres-store.ts';
import type { WorkCommit, WorkStore } from '../../store/work.ts';
import { memoryArtifacts } from '../../tools/call-context.fixture.ts';
import { defineTool } from '../../tools/define-tool.ts';
import { noopTool } from '../../tools/noop/noop-tool.ts';
import { checkedLog, playbook, types } from '../test-bench.fixture.ts';

let database: TestDatabase;
let store: PostgresStore;
/** How long a commit is held up before it is sent, or after it was stored. */
let hold: (commit: WorkCommit) => { before?: number; after?: number } = () => ({});

beforeAll(async () => {
  database = await createTestDatabase();
  store = await PostgresStore.open({ url: database.url });
});
afterAll(async () => {
  await store.close();
  await database.drop();
});

/** A store whose commits can be slow. */
function slowStore(): PostgresStore {
  const work = new Proxy(store.work, {
    get(target, name: keyof WorkStore) {
      if (name !== 'commit') return (target[name] as (...given: never[]) => unknown).bind(target);
      return async (commit: WorkCommit) => {
        const { before, after } = hold(commit);
        if (before) await sleep(before);
        const result = await target.commit(commit);
        if (after) await sleep(after);
        return result;
      };
    },
  });
  return new Proxy(store, {
    get(target, name) {
      if (name === 'work') return work;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? (value as (...given: unknown[]) => unknown).bind(target) : value;
    },
  });
}

const completes = (commit: WorkCommit): boolean =>
  [...(commit.decision ?? []), ...(commit.ahead ?? []).flatMap((piece) => piece.decision)].some(
    (event) => event.eventType === 'StepCompleted',
  );

let startedAt = 0;
/** Says when it was called. */
const called: number[] = [];
const slowTool = defineTool({
  kind: 'slow',
  input: Type.Object({}),
  effect: 'read',
  run: async () => {
    called.push(Date.now());
    await sleep(350);
    called.push(Date.now());
  },
});

async function run(runAhead: boolean, options: { tool?: string; failOpen?: string[] } = {}): Promise<string[]> {
  const runtime: NativeRuntime = createNativeRuntime({
    store: slowStore(),
    tools: [noopTool(), slowTool],
    artifacts: memoryArtifacts(),
    runAhead,
    stateStore: {
      writeLatencyBudgetMs: 600,
      ...(options.failOpen ? { failOpenForEventClass: options.failOpen } : {}),
    },
    worker: { onError: (error, unit) => console.error(unit, error) },
  });
  try {
    const text = playbook(`
- step: start
  spec: {policy: {failure: {retry: {attempts: 2, delay: 0, backoff: fixed}}}}
  tool: {kind: ${options.tool ?? 'noop'}}
`);
    const planRef = await runtime.plans.keep(compiled(text, { tools: { slow: {} } }));
    const scope = { tenantId: 'acme', projectId: 'main', environmentId: 'test' };
    const runId = `budget-${runAhead}-${Math.random()}`;
    await runtime.engine.startRun(planRef, { ...scope, runId, targetAdapter: 'native' });
    for (const end = Date.now() + 15_000; ; await sleep(10)) {
      const found = await store.findRun(runId);
      if (found?.status && isTerminal(found.status)) break;
      if (Date.now() > end) throw new Error(`stuck: ${types(await store.readEvents(runId)).join(' ')}`);
    }
    const events = await checkedLog(store, runId);
    startedAt = Date.parse(events.find((event) => event.eventType === 'StepStarted')?.persistedAt ?? '');
    return events
      .filter((event) => event.stepId === 'start' && event.eventType.startsWith('Step'))
      .map((event) => {
        const code = (event.payload?.['error'] as { code?: string } | undefined)?.code;
        return `${event.eventType}@${event.logicalAttemptId}${code ? ` ${code}` : ''}`;
      });
  } finally {
    hold = () => ({});
    await runtime.close();
  }
}

const starts = (commit: WorkCommit): boolean =>
  [...(commit.facts ?? []), ...(commit.ahead ?? []).flatMap((piece) => piece.facts)].some(
    (event) => event.eventType === 'StepStarted',
  );

async function startsLate(runAhead: boolean): Promise<void> {
  called.length = 0;
  hold = (commit) => (starts(commit) && !completes(commit) ? { before: 1500 } : {});
  expect(await run(runAhead, { tool: 'slow' })).toEqual(['StepScheduled@1', 'StepStarted@1', 'StepCompleted@1']);
  expect(startedAt).toBeGreaterThan(called[1]!);
}

test('ES-5b a start that is not stored in time holds nothing up, and is in the log in the end', () => startsLate(true));

test('ES-5b a start that is not stored in time holds nothing up, and is in the log in the end, without run-ahead', () =>
  startsLate(false));

test('ES-5d where StepStarted may not fail open, nothing is called before it is stored', async () => {
  called.length = 0;
  hold = (commit) => (starts(commit) && !completes(commit) ? { before: 200 } : {});
  const steps = await run(true, { tool: 'slow', failOpen: [] });
  expect(steps).toEqual(['StepScheduled@1', 'StepStarted@1', 'StepCompleted@1']);
  expect(startedAt).toBeLessThanOrEqual(called[0]!);
});

test.each([true, false])(
  'ES-5c an end of a step that is not stored in time fails the attempt, and its late write is refused (run-ahead %s)',
  async (runAhead) => {
    let late = 0;
    hold = (commit) => (completes(commit) && late++ === 0 ? { before: 2000 } : {});
    expect(await run(runAhead)).toEqual([
      'StepScheduled@1',
      'StepStarted@1',
      'StepFailed@1 WRITE_BUDGET_EXCEEDED',
      'StepScheduled@2',
      'StepStarted@2',
      'StepCompleted@2',
    ]);
  },
);

test.each([true, false])('ES-5c an end that was stored and answered late stands (run-ahead %s)', async (runAhead) => {
  let late = 0;
  hold = (commit) => (completes(commit) && late++ === 0 ? { after: 2000 } : {});
  expect(await run(runAhead)).toEqual(['StepScheduled@1', 'StepStarted@1', 'StepCompleted@1']);
});

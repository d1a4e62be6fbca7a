import { expect, test } from 'vitest';
import { buildPlan } from './build-plan.ts';
import { describeEvent } from './scenario.ts';
import { simulate } from './simulator.ts';

const told = (log: readonly Parameters<typeof describeEvent>[0][]) => log.map(describeEvent);

test('a no-op step writes six events', () => {
  const { log, snapshot } = simulate(buildPlan([{ stepId: 'a', next: ['b'] }, { stepId: 'b' }]));
  expect(told(log)).toEqual([
    'PlaybookExecutionRequested',
    'PlaybookRequestEvaluated',
    'RunStarted',
    'StepScheduled a',
    'StepStarted a',
    'TaskStarted a/task_0:1',
    'TaskDone a/task_0:1',
    'StepCompleted a',
    'NextEvaluated a',
    'StepScheduled b',
    'StepStarted b',
    'TaskStarted b/task_0:1',
    'TaskDone b/task_0:1',
    'StepCompleted b',
    'NextEvaluated b',
    'RunCompleted',
  ]);
  expect(snapshot.status).toBe('COMPLETED');
});

test('scripts answer by step, by task and by tool, in a list one after the other', () => {
  const tasks = [
    { name: 'get', kind: 'http', with: { url: '{{ workload.url }}' } },
    { name: 'put', kind: 'postgres', with: {} },
  ];
  const plan = buildPlan([{ stepId: 'a', tasks, failure: { retry: { attempts: 3, delay: 10 } } }], {
    workload: { url: 'x' },
  });
  const urls: unknown[] = [];
  const { snapshot, elapsedMs } = simulate(plan, {
    workload: { url: 'https://example.org' },
    scripts: {
      http: (call) => {
        urls.push(call.fields['url']);
        return { ok: { status: 200 }, ms: 100 };
      },
      'a/put': [{ error: { code: 'DEADLOCK' } }, { ok: { rows: 1 } }],
    },
  });
  expect(snapshot).toMatchObject({ status: 'COMPLETED', steps: [{ logicalAttemptId: 2, status: 'SUCCESS' }] });
  expect(urls).toEqual(['https://example.org', 'https://example.org']);
  expect(elapsedMs).toBe(100 + 10_000 + 100);
});

test('a script for something that the plan does not have is refused, with the name that was meant', () => {
  const plan = buildPlan([{ stepId: 'charge', tasks: [{ name: 'get', kind: 'http', with: {} }] }]);
  const ok = { ok: 1 };
  for (const [name, meant] of [
    ['chrage', 'charge'],
    ['charge/gte', 'charge/get'],
    ['htpp', 'http'],
  ] as const) {
    expect(() => simulate(plan, { scripts: { [name]: ok } })).toThrow(
      expect.objectContaining({
        code: 'STEP_NOT_FOUND',
        message: expect.stringContaining(`did you mean '${meant}'`),
      }),
    );
  }
  expect(() => simulate(plan, { scripts: { something: ok } })).toThrow('it has the steps charge.');
  expect(simulate(plan, { scripts: { charge: ok, http: ok, 'charge/get': ok } }).snapshot.status).toBe('COMPLETED');
});

test('days of waiting take no time', () => {
  const plan = buildPlan([{ stepId: 'ask' }]);
  const wait = { kind: 'approval', outcome: 'approved', result: 'yes' } as const;
  const { snapshot, elapsedMs, log } = simulate(plan, {
    scripts: { ask: (call) => (call.woken ? { ok: call.woken.result } : { wait, ms: 5 * 86_400_000 }) },
  });
  expect(snapshot.status).toBe('COMPLETED');
  expect(elapsedMs).toBe(5 * 86_400_000);
  expect(told(log)).toContain('WaitEnded ask/wait:1');
  const rejected = simulate(plan, { scripts: { ask: { wait: { kind: 'approval', outcome: 'rejected' }, ms: 1 } } });
  expect(rejected.snapshot).toMatchObject({ status: 'FAILED', rootCause: { error: { code: 'APPROVAL_REJECTED' } } });
});

test('loops, signals and the grace of a cancellation play on the same clock', () => {
  const loop = { in: [1, 2, 3, 4], iterator: 'n', mode: 'parallel' as const, maxInFlight: 2 };
  const plan = buildPlan([
    { stepId: 'each', loop, tasks: [{ name: 't', kind: 'python', with: { n: '{{ iter.n }}' } }] },
  ]);
  const done = simulate(plan, { scripts: { python: (call) => ({ ok: (call.fields['n'] as number) * 10, ms: 10 }) } });
  expect(done.log.find((event) => event.eventType === 'LoopDone')?.payload).toEqual({
    count: 4,
    failed: 0,
    result: { value: [10, 20, 30, 40] },
  });
  expect(done.elapsedMs).toBe(20);
  const stuck = simulate(plan, {
    scripts: { python: { ok: 1, ms: 3_600_000 } },
    signals: [{ afterMs: 5, signalType: 'CANCEL' }],
    cancelGraceMs: 30_000,
  });
  expect(stuck.snapshot.status).toBe('CANCELLED');
  expect(stuck.elapsedMs).toBe(30_005);
});

test('a pause holds everything back until the run is resumed', () => {
  const plan = buildPlan([{ stepId: 'a', next: ['b'] }, { stepId: 'b' }]);
  const { elapsedMs, snapshot } = simulate(plan, {
    scripts: { noop: { ok: 1, ms: 10 } },
    signals: [
      { afterMs: 5, signalType: 'PAUSE' },
      { afterMs: 5000, signalType: 'RESUME' },
    ],
  });
  expect(snapshot.status).toBe('COMPLETED');
  expect(elapsedMs).toBe(5010);
});

test('the same seed gives the same log, another one another schedule', () => {
  const steps = [{ stepId: 's', next: ['a', 'b', 'c', 'd'] }, ...['a', 'b', 'c', 'd'].map((stepId) => ({ stepId }))];
  const play = (seed: number) => JSON.stringify(simulate(buildPlan(steps), { seed }).log);
  expect(play(7)).toBe(play(7));
  expect(new Set([1, 2, 3, 4, 5].map(play)).size).toBeGreaterThan(1);
});

test('a worker that dies is replaced, and what it recorded is not done again', () => {
  const calls: string[] = [];
  const tasks = ['one', 'two', 'three'].map((name) => ({ name, kind: 'noop', with: {} }));
  const { snapshot } = simulate(buildPlan([{ stepId: 'a', tasks }]), {
    seed: 11,
    crashRate: 0.4,
    scripts: {
      noop: (call) => {
        calls.push(call.task);
        return { ok: 1 };
      },
    },
  });
  expect(snapshot.status).toBe('COMPLETED');
  expect(calls.filter((call, i) => calls.indexOf(call) === i)).toEqual(['one', 'two', 'three']);
});

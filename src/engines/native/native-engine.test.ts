import { afterAll, beforeAll, expect, test } from 'vitest';
import { type EngineBench, openEngine, playbook, types } from './native.fixture.ts';

let bench: EngineBench;
beforeAll(async () => {
  bench = await openEngine();
});
afterAll(() => bench.close());

test('WE-1a a compiled playbook runs, and its lifecycle is in the log', async () => {
  const events = await bench.run(
    playbook(`
- {step: start, tool: {kind: noop, result: {n: 1}}, next: {arcs: [{step: two}]}}
- {step: two, tool: {kind: noop, result: "{{ start.n + 1 }}"}}
`),
  );
  expect(types(events)).toEqual([
    'PlaybookExecutionRequested',
    'PlaybookRequestEvaluated',
    'RunStarted',
    'StepScheduled',
    'StepStarted',
    'TaskStarted',
    'TaskDone',
    'StepCompleted',
    'NextEvaluated',
    'StepScheduled',
    'StepStarted',
    'TaskStarted',
    'TaskDone',
    'StepCompleted',
    'NextEvaluated',
    'RunCompleted',
  ]);
  expect(events.at(-1)?.payload?.['result']).toEqual({ value: 2 });
});

test('a parallel loop runs every iteration once and lists the results in index order', async () => {
  const events = await bench.run(
    playbook(`
- step: start
  loop: {in: "{{ range(50) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 8}}
  tool: {kind: noop, result: "{{ iter.n * 2 }}"}
`),
  );
  const done = events.filter((event) => event.eventType === 'LoopIterationDone');
  expect(done.length).toBe(50);
  expect(events.at(-1)?.payload?.['result']).toEqual({ value: Array.from({ length: 50 }, (_, i) => i * 2) });
});

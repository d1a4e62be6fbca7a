import { expect, test } from 'vitest';
import { buildPlan } from '../testing/build-plan.ts';
import { Scenario } from '../testing/scenario.ts';

test('without join a step runs once per token', () => {
  const run = new Scenario(
    buildPlan([
      { stepId: 's', next: ['a', 'b'] },
      { stepId: 'a', next: ['z'] },
      { stepId: 'b', next: ['z'] },
      { stepId: 'z' },
    ]),
  );
  run.start();
  run.complete('s');
  expect(run.complete('a')).toContain('StepScheduled z');
  expect(run.complete('b')).toContain('StepScheduled z#2');
});

test('join: all holds tokens until no other can come, and fires once with all of them, args merged in plan order', () => {
  const to = (name: string, args: Record<string, unknown>) => ({
    mode: 'exclusive' as const,
    arcs: [{ step: name, args }],
  });
  const plan = buildPlan([
    { stepId: 's', next: ['a', 'b', 'c'] },
    { stepId: 'a', next: to('j', { from: 'a', a: 1 }) },
    { stepId: 'b', next: to('j', { from: 'b', b: 1 }) },
    { stepId: 'c', next: to('d', {}) },
    { stepId: 'd', next: { mode: 'exclusive', arcs: [{ step: 'j', when: '{{ d.go }}' }] } },
    { stepId: 'j', join: 'all' },
  ]);
  const run = new Scenario(plan);
  run.start();
  run.complete('s');
  expect(run.complete('b')).toEqual(['StepCompleted b', 'NextEvaluated b']);
  expect(run.complete('a')).toEqual(['StepCompleted a', 'NextEvaluated a']);
  expect(run.complete('c')).toEqual(['StepCompleted c', 'NextEvaluated c', 'StepScheduled d']);
  // The last branch ends without an arc to the join: nobody else can come, so it fires with the two it has.
  expect(run.complete('d', { go: false })).toEqual(['StepCompleted d', 'NextEvaluated d', 'StepScheduled j']);
  expect(run.state.open.get('j')).toMatchObject({
    args: { from: 'b', a: 1, b: 1 },
    cause: {
      kind: 'arc',
      arrivals: [
        { from: 'a', arc: 0 },
        { from: 'b', arc: 0 },
      ],
    },
  });
  expect(run.complete('j').at(-1)).toBe('RunCompleted');
});

test('a join in a cycle waits for the tokens that are still on their way round, and fires again', () => {
  const plan = buildPlan([
    { stepId: 's', next: ['a', 'b'] },
    { stepId: 'a', next: ['j'] },
    { stepId: 'b', next: ['j'] },
    {
      stepId: 'j',
      join: 'all',
      next: {
        mode: 'inclusive',
        arcs: [{ step: 'a', when: '{{ args.again is not defined and ctx.round != 2 }}', set: { 'ctx.round': 2 } }],
      },
    },
  ]);
  const run = new Scenario(plan);
  run.start();
  run.complete('s');
  run.complete('a');
  expect(run.complete('b')).toContain('StepScheduled j');
  expect(run.complete('j')).toContain('StepScheduled a#2');
  expect(run.complete('a#2')).toContain('StepScheduled j#2');
  expect(run.complete('j#2').at(-1)).toBe('RunCompleted');
});

test('a join waits for another join that can reach it', () => {
  const plan = buildPlan([
    { stepId: 's', next: ['a', 'b', 'c'] },
    { stepId: 'a', next: ['j1'] },
    { stepId: 'b', next: ['j1'] },
    { stepId: 'c', next: ['j2'] },
    { stepId: 'j1', join: 'all', next: ['j2'] },
    { stepId: 'j2', join: 'all' },
  ]);
  const run = new Scenario(plan);
  run.start();
  run.complete('s');
  run.complete('c');
  run.complete('a');
  expect(run.complete('b')).toEqual(['StepCompleted b', 'NextEvaluated b', 'StepScheduled j1']);
  expect(run.complete('j1')).toEqual(['StepCompleted j1', 'NextEvaluated j1', 'StepScheduled j2']);
  expect(run.complete('j2').at(-1)).toBe('RunCompleted');
});

test('of joins that wait only for each other the first in plan order fires', () => {
  const plan = buildPlan([
    { stepId: 's', next: ['a', 'b'] },
    { stepId: 'a', next: ['j2'] },
    { stepId: 'b', next: ['j1'] },
    { stepId: 'j1', join: 'all', next: { mode: 'exclusive', arcs: [{ step: 'j2', when: '{{ true }}' }] } },
    { stepId: 'j2', join: 'all', next: { mode: 'exclusive', arcs: [{ step: 'j1', when: '{{ false }}' }] } },
  ]);
  const run = new Scenario(plan);
  run.start();
  run.complete('s');
  run.complete('a');
  expect(run.complete('b')).toContain('StepScheduled j1');
  expect(run.complete('j1')).toContain('StepScheduled j2');
  expect(run.complete('j2').at(-1)).toBe('RunCompleted');
});

test('a join that a mutual pair leads to waits for the pair', () => {
  const never = { mode: 'inclusive' as const };
  const plan = buildPlan([
    { stepId: 's', next: ['a', 'b', 'c'] },
    { stepId: 'a', next: ['p'] },
    { stepId: 'b', next: ['q'] },
    { stepId: 'c', next: ['first'] },
    { stepId: 'first', join: 'all' },
    { stepId: 'p', join: 'all', next: { ...never, arcs: [{ step: 'q' }] } },
    { stepId: 'q', join: 'all', next: { ...never, arcs: [{ step: 'p', when: false }, { step: 'first' }] } },
  ]);
  const run = new Scenario(plan);
  run.start();
  run.complete('s');
  run.complete('c');
  run.complete('a');
  expect(run.complete('b')).toContain('StepScheduled p');
  expect(run.complete('p')).toContain('StepScheduled q');
  expect(run.complete('q')).toContain('StepScheduled first');
});

test('a step that waits for its retry still counts as a token on its way to a join', () => {
  const plan = buildPlan([
    { stepId: 's', next: ['a', 'b'] },
    { stepId: 'a', next: ['j'] },
    { stepId: 'b', next: ['j'], failure: { retry: { attempts: 2, delay: 1 } } },
    { stepId: 'j', join: 'all' },
  ]);
  const run = new Scenario(plan);
  run.start();
  run.complete('s');
  run.fail('b');
  expect(run.complete('a')).toEqual(['StepCompleted a', 'NextEvaluated a']);
  expect(run.complete('b')).toContain('StepScheduled j');
});

test('where branches of different length meet, a name means the nearer ancestor', () => {
  const plan = buildPlan([
    { stepId: 's', next: ['w', 'x'] },
    { stepId: 'w', next: ['j'] },
    { stepId: 'x', next: ['y'] },
    { stepId: 'y', next: ['w2'] },
    { stepId: 'w2', next: ['far'] },
    { stepId: 'far', next: ['w', 'j'] },
    { stepId: 'j', join: 'all', next: { mode: 'exclusive', arcs: [{ step: 'z', args: { w: '{{ w.n }}' } }] } },
    { stepId: 'z' },
  ]);
  const run = new Scenario(plan);
  run.start();
  run.complete('s');
  run.complete('w', { n: 1 });
  run.complete('x');
  run.complete('y');
  run.complete('w2');
  run.complete('far');
  run.complete('w#2', { n: 2 });
  expect(run.state.open.has('j')).toBe(true);
  run.complete('j');
  // Both instances are one step away; the first arrival in plan order decides, not who was faster.
  expect(run.state.open.get('z')?.args).toEqual({ w: 1 });
});

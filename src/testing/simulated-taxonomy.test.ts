import { Compile } from 'typebox/compile';
import { expect, test } from 'vitest';
import { compileSync } from '../compiler/compile.ts';
import { CanonicalEvent } from '../contracts/canonical-event.ts';
import { CATALOGUE, type EventType } from '../contracts/catalogue.ts';
import { canonicalView } from '../kernel/canonical-view.ts';
import { simulate } from './simulator.ts';

const PLAYBOOK = `apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: taxonomy, version: "1"}
workflow:
- step: start
  tool:
    - name: get
      kind: http
      url: https://example.org
      spec: {policy: {rules: [{when: "{{ outcome.http.status == 503 }}", then: {do: retry, attempts: 3, backoff: fixed, delay: 1}}]}}
  set: {ctx.n: "{{ start.n }}"}
  next: {spec: {mode: inclusive}, arcs: [{step: each, when: "{{ ctx.n == 2 }}", args: {n: 2}}, {step: refused}]}
- step: refused
  spec: {policy: {admit: {rules: [{else: {then: {allow: false, reason: not today}}}]}}}
  tool: {kind: noop}
- step: each
  spec: {policy: {failure: {mode: best_effort}}}
  loop: {in: [0, 1], iterator: i, spec: {mode: parallel}}
  tool: {kind: python, code: x}
  next: {arcs: [{step: broken}]}
- step: broken
  spec: {policy: {failure: {mode: best_effort}}}
  tool: {kind: shell, cmds: [x]}
`;

/** What the kernel and a runner write. Storing results and evidence is the work of those who have a store. */
const TAXONOMY =
  `playbook.execution.requested playbook.request.evaluated playbook.started playbook.paused playbook.finished
  workflow.started workflow.finished step.scheduled step.started step.done step.failed task.started task.attempt.started
  task.attempt.done task.attempt.failed task.done task.failed loop.started loop.iteration.scheduled
  loop.iteration.started loop.iteration.done loop.iteration.failed loop.done policy.admit.evaluated
  policy.task.evaluated next.evaluated`.split(/\s+/);

const compiled = compileSync({ text: PLAYBOOK, file: 'taxonomy.yaml' });
if (!compiled.ok) throw new Error(JSON.stringify(compiled.problems));
const { log, snapshot } = simulate(compiled.plan, {
  scripts: {
    http: [{ error: { code: 'HTTP_503' }, details: { http: { status: 503 } } }, { ok: { n: 2 } }],
    python: (call) => (call.index === 0 ? { ok: 1, ms: 10 } : { error: { code: 'ODD' }, ms: 10 }),
    shell: { error: { code: 'EXIT' } },
  },
  signals: [
    { afterMs: 500, signalType: 'PAUSE' },
    { afterMs: 2000, signalType: 'RESUME' },
  ],
});
const views = log.flatMap((record) => canonicalView(record));
const viewOf = (type: string) => views.find((view) => view.event_type === type);

test('NE-3a a run produces each type of the taxonomy, with a payload that its schema takes', () => {
  expect(snapshot.status).toBe('COMPLETED');
  for (const type of TAXONOMY) expect(viewOf(type), type).toBeDefined();
  for (const { eventType, payload = {} } of log) {
    const { payload: schema } = CATALOGUE[eventType as EventType];
    expect([...Compile(schema).Errors(payload)], `${eventType} ${JSON.stringify(payload)}`).toEqual([]);
  }
});

test('NE-2a the canonical view of a whole run is valid, in order, and each event has its own id', () => {
  const valid = Compile(CanonicalEvent);
  for (const view of views) expect(valid.Check(view), JSON.stringify(view)).toBe(true);
  expect(new Set(views.map((view) => view.event_id)).size).toBe(views.length);
  const order = views.map((view) => view.seq ?? 0);
  expect(order).toEqual([...order].sort((a, b) => a - b));
});

test('NE-3b NE-3c a retried task is one task run, and decisions name their rule and their arcs', () => {
  const tries = views.filter(
    (view) => view.event_type.startsWith('task.attempt.') && view.parent_id?.includes('start'),
  );
  expect(new Set(tries.map((view) => view.task_run_id)).size).toBe(1);
  expect(tries.map((view) => [view.event_type, view.attempt])).toEqual([
    ['task.attempt.started', 1],
    ['task.attempt.failed', 1],
    ['task.attempt.started', 2],
    ['task.attempt.done', 2],
  ]);
  expect(viewOf('policy.task.evaluated')?.payload).toMatchObject({
    matched_rule_index: 0,
    action: { do: 'retry', attempts: 3, backoff: 'fixed', delay: 1 },
  });
  expect(viewOf('next.evaluated')?.payload).toMatchObject({
    mode: 'inclusive',
    matched: [{ step: 'each', when: expect.stringContaining('ctx.n == 2') }, { step: 'refused' }],
    selected: [{ step: 'each', args: { n: 2 } }, { step: 'refused' }],
  });
});

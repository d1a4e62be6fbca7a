import { expect, test } from 'vitest';
import { compileSync } from '../compiler/compile.ts';
import { replay } from '../kernel/replay.ts';
import type { Script } from './simulated-call.ts';
import { type SimulatorOptions, simulate } from './simulator.ts';

/** A playbook as people write it, compiled and played. Every played log must replay. */
function play(workflow: string, options: SimulatorOptions = {}, more = '') {
  const text = `apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: test, version: "1"}\n${more}workflow:\n${workflow}`;
  const compiled = compileSync({ text, file: 'test.yaml' });
  if (!compiled.ok) throw new Error(JSON.stringify(compiled.problems, null, 1));
  const result = simulate(compiled.plan, options);
  expect(replay(compiled.plan, result.log)).toMatchObject({ ok: true });
  return result;
}
const argsOf = (log: ReturnType<typeof play>['log'], stepId: string) =>
  log.find((event) => event.eventType === 'StepScheduled' && event.stepId === stepId)?.payload?.['args'];

test('a playbook with a loop, routing on its result, args and ctx', () => {
  const { snapshot, log, state } = play(
    `
- step: start
  tool: {kind: noop, result: {cities: [Oslo, Rome, Lima]}}
  next: {arcs: [{step: fetch}]}
- step: fetch
  loop: {in: "{{ start.cities }}", iterator: city, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: http, method: GET, url: "https://example.org/{{ iter.city }}"}
  set: {ctx.total: "{{ fetch.count }}"}
  next:
    spec: {mode: inclusive}
    arcs:
      - {step: store, when: "{{ event.name == 'loop.done' and ctx.total == 3 }}", args: {names: "{{ fetch | map(attribute='name') | list }}"}}
      - {step: alarm, when: "{{ fetch.failed > 0 }}"}
- step: store
  tool: {kind: noop}
- step: alarm
  tool: {kind: noop}
`,
    { scripts: { http: (call) => ({ ok: { name: String(call.fields['url']).split('/').at(-1) } }) } },
  );
  expect(snapshot.status).toBe('COMPLETED');
  expect(snapshot.steps.map((step) => step.stepId)).toEqual(['start', 'fetch', 'store']);
  expect(argsOf(log, 'store')).toEqual({ names: ['Oslo', 'Rome', 'Lima'] });
  expect(state.ctx).toEqual({ total: 3 });
});

test('task policies: retry on 503, break when there is nothing, fail otherwise', () => {
  const workflow = `
- step: start
  tool:
    - name: get
      kind: http
      method: GET
      url: https://example.org
      spec:
        policy:
          rules:
            - {when: "{{ outcome.http.status == 503 }}", then: {do: retry, attempts: 3, backoff: fixed, delay: 10}}
            - {when: "{{ outcome.http.status == 404 }}", then: {do: break, set_ctx: {empty: true}}}
            - {when: "{{ outcome.status == 'error' }}", then: {do: fail}}
    - {name: use, kind: noop, result: "{{ get.n }}"}
`;
  const answer = (status: number) => ({ error: { code: `HTTP_${status}` }, details: { http: { status } } });
  const retried = play(workflow, { scripts: { http: [answer(503), answer(503), { ok: { n: 7 } }] } });
  expect(retried.snapshot.status).toBe('COMPLETED');
  expect(retried.elapsedMs).toBe(20_000);
  expect(retried.log.at(-1)?.payload?.['result']).toEqual({ value: 7 });
  const nothing = play(workflow, { scripts: { http: answer(404) } });
  expect([nothing.snapshot.status, nothing.state.ctx]).toEqual(['COMPLETED', { empty: true }]);
  const failed = play(workflow, { scripts: { http: answer(500) } });
  expect(failed.snapshot).toMatchObject({ status: 'FAILED', rootCause: { error: { code: 'HTTP_500' } } });
});

test('a page loop with jump, and a polling cycle between steps', () => {
  const pages = play(
    `
- step: start
  tool:
    - {name: page, kind: http, method: GET, url: "https://example.org?page={{ ctx.page | default(1) }}"}
    - name: more
      kind: noop
      spec: {policy: {rules: [{when: "{{ page.next }}", then: {do: jump, to: page, set_ctx: {page: "{{ page.next }}"}}}]}}
`,
    { scripts: { http: (call) => ({ ok: { next: call.run < 3 ? call.run + 1 : null } }) } },
  );
  expect(pages.log.filter((event) => event.eventType === 'TaskDone' && event.entity?.includes('/page:'))).toHaveLength(
    3,
  );
  const polled = play(
    `
- step: poll
  tool: {kind: http, method: GET, url: https://example.org}
  next:
    arcs:
      - {step: wait, when: "{{ poll.state != 'ready' }}"}
      - {step: done}
- step: wait
  tool: {kind: noop}
  next: {arcs: [{step: poll}]}
- step: done
  tool: {kind: noop}
`,
    { scripts: { http: [{ ok: { state: 'busy' } }, { ok: { state: 'busy' } }, { ok: { state: 'ready' } }] } },
  );
  expect(polled.snapshot.steps.map((step) => step.stepId)).toEqual([
    'poll',
    'wait',
    'poll#2',
    'wait#2',
    'poll#3',
    'done',
  ]);
});

test('admission, a join, a handler of failures and a final step', () => {
  const workflow = `
- step: start
  tool: {kind: noop}
  next: {spec: {mode: inclusive}, arcs: [{step: left}, {step: right}]}
- step: left
  tool: {kind: python, code: "result = 1"}
  next:
    arcs:
      - {step: meet, when: "{{ event.name == 'step.done' }}"}
      - {step: meet, when: "{{ event.name == 'step.failed' }}", args: {why: "{{ event.error.code }}"}}
- step: right
  spec: {policy: {admit: {rules: [{when: "{{ workload.both }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
  tool: {kind: noop}
  next: {arcs: [{step: meet, args: {right: "{{ event.name }}"}}]}
- step: meet
  join: all
  tool: {kind: noop}
- step: last
  tool: {kind: noop}
`;
  const more = 'executor: {spec: {final_step: last}}\nworkload: {both: false}\n';
  const fine = play(workflow, { workload: { both: true } }, more);
  expect(fine.snapshot.steps.map((step) => step.status)).toEqual(Array(5).fill('SUCCESS'));
  expect(argsOf(fine.log, 'meet')).toEqual({ right: 'step.done' });
  const odd = play(workflow, { scripts: { python: { error: { code: 'E7' } } } }, more);
  expect(odd.snapshot.status).toBe('COMPLETED');
  expect(argsOf(odd.log, 'meet')).toEqual({ why: 'E7', right: 'step.skipped' });
  expect(odd.snapshot.steps.at(-1)).toMatchObject({ stepId: 'last', status: 'SUCCESS' });
});

test('a child run is a wait, and its result is the task’s', () => {
  const compiled = compileSync(
    {
      text: `apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: parent}\nworkflow:\n- step: start\n  tool: {kind: playbook, path: child}\n`,
      file: 'parent.yaml',
    },
    {
      resolve: () => ({
        text: 'apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: child, path: child}\nworkflow:\n- {step: a, tool: {kind: noop}}\n',
        file: 'child.yaml',
      }),
    },
  );
  if (!compiled.ok) throw new Error(JSON.stringify(compiled.problems));
  const wait = { kind: 'child', outcome: 'done', result: { n: 1 } } as const;
  const { snapshot, log } = simulate(compiled.plan, {
    scripts: { playbook: (call) => (call.woken ? undefined : { wait, ms: 1000 }) },
  });
  expect(snapshot.status).toBe('COMPLETED');
  expect(log.find((event) => event.eventType === 'StepCompleted')?.payload?.['result']).toEqual({ value: { n: 1 } });
});

test('the final step runs to its end whatever happened before, also if it is a loop', () => {
  const workflow = `
- {step: start, tool: {kind: python, code: x}}
- {step: last, loop: {in: [1, 2], iterator: n}, tool: {kind: noop, result: "{{ n }} {{ start.error.code }}"}}
`;
  const more = 'executor: {spec: {final_step: last}}\n';
  const failed = play(workflow, { scripts: { python: { error: { code: 'E1' } } } }, more);
  expect(failed.snapshot).toMatchObject({ status: 'FAILED', failedSteps: 1, rootCause: { stepId: 'start' } });
  expect(failed.log.find((event) => event.eventType === 'LoopDone')?.payload).toMatchObject({
    result: { value: ['1 E1', '2 E1'] },
  });
  const wait = { kind: 'approval', outcome: 'rejected' } as const;
  const rejected = play(workflow, { scripts: { start: { wait } } }, more);
  expect(rejected.snapshot.steps.at(-1)).toMatchObject({ stepId: 'last', status: 'SUCCESS' });
});

test('a task of the workbook runs with its own tool, its input, and the step’s input below that', () => {
  const workflow = `
- step: start
  input: {x: 1, y: 2}
  tool: {kind: workbook, name: calc, input: {y: "{{ workload.n }}"}}
`;
  const more =
    'workload: {n: 5}\nworkbook: [{name: calc, tool: {kind: python, code: x, input: {y: null, z: "{{ input.y * 2 }}"}}}]\n';
  const { log } = play(workflow, { scripts: { python: (call) => ({ ok: call.fields['input'] }) } }, more);
  expect(log.at(-1)?.payload?.['result']).toEqual({ value: { x: 1, y: 5, z: 10 } });
});

test('a handler reads why a step failed or was skipped under its name', () => {
  const workflow = `
- step: start
  spec: {policy: {admit: {rules: [{else: {then: {allow: false, reason: not now}}}]}}}
  tool: {kind: noop}
  next: {arcs: [{step: broken}]}
- step: broken
  tool: {kind: python, code: x}
  next: {arcs: [{step: handler, when: "{{ broken.status == 'error' }}"}]}
- step: handler
  tool: {kind: noop, result: ["{{ start.status }}", "{{ start.reason }}", "{{ broken.error.code }}", "{{ broken.data }}"]}
`;
  const { log } = play(workflow, { scripts: { python: { error: { code: 'E1' } } } });
  expect(log.at(-1)?.payload?.['result']).toEqual({ value: ['skipped', 'not now', 'E1', null] });
});

test('a name that a task has not assigned, because it failed and the pipeline went on, is undefined and no mistake', () => {
  const workflow = `
- step: start
  tool:
    - name: odd
      kind: python
      code: x
      spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: continue}}]}}
      set: {found: "{{ outcome.result }}", city: "{{ outcome.result }}"}
    - {name: use, kind: noop, result: {found: "{{ found | default('nothing') }}", is: "{{ found is defined }}", city: "{{ city }}"}}
`;
  const run = (script: Script) =>
    play(workflow, { scripts: { python: script } }, 'workload: {city: Oslo}\n').log.at(-1)?.payload?.['result'];
  expect(run({ error: {} })).toEqual({ value: { found: 'nothing', is: false, city: 'Oslo' } });
  expect(run({ ok: 7 })).toEqual({ value: { found: 7, is: true, city: 7 } });
});

test('a variable of a program whose template gives nothing is there, and is null', () => {
  const workflow = `
- step: start
  input: {a: "{{ ctx.nothing }}", b: 1}
  tool: {kind: python, code: x, input: {c: "{{ ctx.nothing.at.all }}", b: 2}}
`;
  const { log } = play(workflow, { scripts: { python: (call) => ({ ok: call.fields['input'] }) } });
  expect(log.at(-1)?.payload?.['result']).toEqual({ value: { a: null, b: 2, c: null } });
});

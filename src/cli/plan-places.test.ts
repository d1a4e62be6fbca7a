import { expect, test } from 'vitest';
import { compiled, playbook } from '../compiler/compile.fixture.ts';
import { inWords } from './plan-places.ts';

const { plan } = compiled(
  playbook(`- step: start
  tool: {kind: noop, result: {text: "{{ workload.n }}"}}
  next: {arcs: [{step: two, when: "{{ ctx.a }}"}, {step: end}]}
- step: two
  loop: {in: "{{ workload.list }}", iterator: x}
  tool: [{name: get, kind: noop}, {name: put, kind: noop, result: 1}]
- step: end
  tool: {kind: noop}
`),
);

test.each([
  ['/steps/0/tasks/0/with/result/text', "(`result.text` of step 'start')"],
  ['/steps/0/next/arcs/0/when', "(`when` of the arc to 'two' of step 'start')"],
  ['/steps/1/tasks/1/with/result', "(`result` of task 'put' of step 'two')"],
  ['/steps/1/loop/in', "(`loop.in` of step 'two')"],
])('%s is said in the words of the playbook', (pointer, expected) => {
  expect(inWords(`division by zero (line 1, column 7 of ${pointer})`, plan)).toBe(`division by zero ${expected}`);
});

test('what is no place of this plan stays as it is', () => {
  for (const message of [
    'boom',
    'boom (line 1, column 7 of /steps/9/tasks/0)',
    'boom (line 1, column 7 of /workload/x)',
  ])
    expect(inWords(message, plan)).toBe(message);
  const known = 'boom (line 1, column 7 of /steps/0/tasks/0/with/result)';
  expect(inWords(known, undefined)).toBe(known);
});

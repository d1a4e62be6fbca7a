import { expect, test } from 'vitest';
import { simulate } from '../testing/simulator.ts';
import { compileSync } from './compile.ts';
import { locateError } from './locate-error.ts';

const HEAD =
  'apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: test, version: "1"}\nworkload: {odd: {}}\nworkflow:\n';

/** What the run says about its failure, and where the author finds it. */
function failure(step: string): string {
  const compiled = compileSync({ text: `${HEAD}${step}`, file: 'test.yaml' });
  if (!compiled.ok) throw new Error(JSON.stringify(compiled.problems));
  const { snapshot } = simulate(compiled.plan);
  expect(snapshot.rootCause?.error.code).toMatch(/^TEMPLATE_/);
  return locateError(snapshot.rootCause?.error.message ?? '', compiled.positions);
}

test('an error of a template while a run goes on is found in the playbook, wherever the template stands', () => {
  const places: [string, string][] = [
    ['- step: a\n  tool: {kind: noop, result: [1, "{{ workload.odd + 1 }}"]}\n', '7:34'],
    ['- step: a\n  tool: {kind: noop, set: {ctx.x: "{{ workload.odd + 1 }}"}}\n', '7:35'],
    ['- step: a\n  tool: {kind: noop, spec: {timeout: "{{ workload.odd + 1 }}"}}\n', '7:38'],
    ['- step: a\n  tool: {kind: noop}\n  set: {ctx.x: "{{ workload.odd + 1 }}"}\n', '8:16'],
    ['- step: a\n  tool: {kind: noop}\n  loop: {in: "{{ workload.odd + 1 }}", iterator: n}\n', '8:14'],
    ['- step: a\n  tool: {kind: noop}\n  next: {arcs: [{step: a, when: workload.odd + 1}]}\n', '8:33'],
    ['- step: a\n  tool: {kind: noop}\n  next: {arcs: [{step: a, args: {b: "{{ workload.odd + 1 }}"}}]}\n', '8:37'],
    [
      '- step: a\n  tool: {kind: noop}\n  spec: {policy: {admit: {rules: [{when: "{{ workload.odd + 1 }}", then: {allow: true}}]}}}\n',
      '8:42',
    ],
    [
      '- step: a\n  tool: {kind: noop, spec: {policy: {rules: [{when: "{{ workload.odd + 1 }}", then: {do: fail}}]}}}\n',
      '7:53',
    ],
  ];
  for (const [step, place] of places) expect(failure(step)).toMatch(new RegExp(`\\(test\\.yaml:${place}\\)$`));
});

test('a name that no step has given yet is an error with the name and its place', () => {
  const step =
    '- step: a\n  tool: {kind: noop, result: "{{ b.x }}"}\n  next: {arcs: [{step: b, when: "{{ event.name == \'step.done\' }}"}]}\n- {step: b, tool: {kind: noop}}\n';
  expect(failure(step)).toBe("'b' is not defined here (test.yaml:7:30)");
});

test('other messages stay as they are', () => {
  expect(locateError('nothing (line 1, column 2 of /steps/9)', {})).toBe('nothing (line 1, column 2 of /steps/9)');
  expect(locateError('no place at all', {})).toBe('no place at all');
});

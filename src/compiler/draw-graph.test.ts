import { expect, test } from 'vitest';
import { compiled, playbook } from './compile.fixture.ts';
import { toDot, toMermaid } from './draw-graph.ts';
import { explain } from './explain.ts';

const { plan } = compiled(
  playbook(
    `
- step: 'a"]; b --> c <script>alert(1)<b> \\N'
  desc: "line one\\nline two\\e[2J"
  next: {arcs: [{step: end, when: "{{ 'x\\"|y' == \\"#quot;\\" and ctx.a\\n  == 1 }}"}]}
- {step: end, tool: {kind: noop}}
- {step: ${'l'.repeat(150)}, tool: {kind: noop}}
`,
    'executor: {spec: {final_step: end}}\n',
  ),
);

test('names and conditions cannot break out of a Mermaid label', () => {
  const lines = toMermaid(plan).trimEnd().split('\n');
  expect(lines).toHaveLength(1 + 3 + 1 + 2 + 2);
  for (const line of lines) {
    const labels = [...line.matchAll(/"([^"]*)"/g)].map((match) => match[1]!);
    expect(line.split('"')).toHaveLength(1 + 2 * labels.length);
    for (const label of labels) expect(label.replaceAll('<br/>', '')).toMatch(/^[\p{L}\p{N} _.,'#;…-]*$/u);
  }
});

test('names and conditions cannot break out of a Graphviz label', () => {
  const dot = toDot(plan);
  const label = String.raw`a\"]; b --> c <script>alert(1)<b> \\N`;
  expect(dot).toContain(`s0 [label="${label}"`);
  // Each string ends where it should: outside of strings nothing but the words of the language is left.
  const outside = dot.replace(/"(?:[^"\\]|\\.)*"/g, 'S');
  expect(outside).toMatch(/^[\w\s{}[\]=,;>-]*$/);
});

test('long names are cropped, and texts for people stay on their line', () => {
  expect(toMermaid(plan)).toContain(`${'l'.repeat(59)}#8230;`);
  expect(explain(plan)).toContain('1. a"]; b --> c <script>alert(1)<b> \\N: line one\n');
  expect(explain(plan)).not.toContain('\u001b');
});

import type { Arc, Plan, PlanStep } from '../contracts/plan.ts';

const MAX_LABEL = 60;

/** The plan as a Mermaid flowchart. */
export function toMermaid(plan: Plan): string {
  const lines = ['flowchart TD'];
  for (const step of plan.steps) {
    const [open, close] = mermaidShape(plan, step);
    lines.push(`  s${step.index}${open}"${mermaidText(stepLabel(step).join('\n'))}"${close}`);
  }
  for (const { from, to, arc } of edges(plan)) {
    const label = arc.when === undefined ? '' : `|"${mermaidText(conditionLabel(arc))}"|`;
    lines.push(`  s${from} -->${label} s${to}`);
  }
  const final = plan.steps.find((step) => step.stepId === plan.finalStep);
  const entry = plan.steps.find((step) => step.stepId === plan.entryStep);
  if (entry) lines.push('  begin((" "))', `  begin --> s${entry.index}`);
  if (final) lines.push('  quiet{{"no token left"}}', `  quiet -.-> s${final.index}`);
  return `${lines.join('\n')}\n`;
}

/** The plan in the language of Graphviz. */
export function toDot(plan: Plan): string {
  const lines = [`digraph "${dotText(plan.metadata.name)}" {`, '  rankdir=TB;', '  node [shape=box, style=rounded];'];
  lines.push('  begin [shape=point];');
  for (const step of plan.steps) {
    const shape = step.join ? ', shape=trapezium' : step.loop ? ', peripheries=2' : '';
    lines.push(`  s${step.index} [label="${stepLabel(step).map(dotText).join('\\n')}"${shape}];`);
  }
  const entry = plan.steps.find((step) => step.stepId === plan.entryStep);
  if (entry) lines.push(`  begin -> s${entry.index};`);
  for (const { from, to, arc } of edges(plan)) {
    const label = arc.when === undefined ? '' : ` [label="${dotText(conditionLabel(arc))}"]`;
    lines.push(`  s${from} -> s${to}${label};`);
  }
  const final = plan.steps.find((step) => step.stepId === plan.finalStep);
  if (final)
    lines.push('  quiet [label="no token left", shape=plaintext];', `  quiet -> s${final.index} [style=dashed];`);
  return `${lines.join('\n')}\n}\n`;
}

function* edges(plan: Plan): Generator<{ from: number; to: number; arc: Arc }> {
  const index = new Map(plan.steps.map((step) => [step.stepId, step.index]));
  for (const step of plan.steps) {
    for (const arc of step.next?.arcs ?? []) {
      const to = index.get(arc.step);
      if (to !== undefined) yield { from: step.index, to, arc };
    }
  }
}

function stepLabel(step: PlanStep): string[] {
  const label = [step.stepId];
  if (step.loop) label.push(`${step.loop.mode} loop`);
  const kinds = step.tasks.map((task) => task.kind).join(' > ');
  if (kinds !== '') label.push(kinds);
  return label.map(crop);
}

function conditionLabel(arc: Arc): string {
  const text = String(arc.when);
  const lone = /^\{\{([^{}]*)\}\}$/.exec(text);
  return crop((lone?.[1] ?? text).replace(/\s+/g, ' ').trim());
}

function crop(text: string): string {
  const points = [...text.slice(0, 2 * MAX_LABEL)];
  return points.length > MAX_LABEL ? `${points.slice(0, MAX_LABEL - 1).join('')}…` : points.join('');
}

function mermaidShape(plan: Plan, step: PlanStep): [string, string] {
  if (step.join) return ['[/', '\\]'];
  if (step.loop) return ['[[', ']]'];
  if (step.tasks.length === 0) return ['{', '}'];
  return step.stepId === plan.entryStep ? ['([', '])'] : ['[', ']'];
}

/** Everything that Mermaid could read as syntax, as a numeric entity. */
function mermaidText(text: string): string {
  return text
    .replace(/[^\p{L}\p{N} _.,'\n-]/gu, (character) => `#${character.codePointAt(0)};`)
    .replaceAll('\n', '<br/>');
}

function dotText(text: string): string {
  // Backslashes begin escapes such as \N, which would be replaced by the name of the node.
  return text
    .replace(/[\p{Cc}\p{Cf}]/gu, ' ')
    .replaceAll('\\', '\\\\')
    .replaceAll('"', '\\"');
}

import type { Arc, Plan, PlanStep, Task } from '../contracts/plan.ts';

/** The flow of a plan in a few lines for people. */
export function explain(plan: Plan): string {
  const { name, planVersion, description } = plan.metadata;
  const lines = [
    `${clean(name)} (version ${clean(planVersion)}): ${count(plan.steps.length, 'step')}, begins at ${clean(plan.entryStep)}`,
  ];
  if (description) lines.push(clean(description.split('\n', 1)[0]!));
  for (const step of plan.steps) lines.push('', ...explainStep(step));
  if (plan.finalStep !== undefined)
    lines.push('', `When no token is left, ${clean(plan.finalStep)} runs once, whatever happened before.`);
  return `${lines.join('\n')}\n`;
}

function explainStep(step: PlanStep): string[] {
  const lines = [
    `${step.index + 1}. ${clean(step.stepId)}${step.desc ? `: ${clean(step.desc.split('\n', 1)[0]!)}` : ''}`,
  ];
  const say = (text: string): void => {
    lines.push(`   ${text}`);
  };
  if (step.join) say('waits for every token that can still arrive');
  for (const rule of step.admit?.rules ?? []) {
    say(
      `${rule.allow ? 'runs' : 'is skipped'}${rule.when === undefined ? ' otherwise' : ` if ${condition(rule.when)}`}`,
    );
  }
  if (step.loop) say(explainLoop(step.loop));
  for (const task of step.tasks) say(explainTask(task));
  if (step.failure?.retry) say(`is tried ${step.failure.retry.attempts} times in all`);
  if (step.failure?.mode === 'best_effort') say('lets its siblings finish if it fails');
  const { next } = step;
  if (!next || next.arcs.length === 0) say('ends here');
  else {
    if (next.arcs.length > 1)
      say(next.mode === 'inclusive' ? 'goes on to all that match:' : 'goes on to the first that matches:');
    for (const arc of next.arcs) say(explainArc(arc));
  }
  return lines;
}

function explainLoop(loop: NonNullable<PlanStep['loop']>): string {
  const name = clean(loop.iterator);
  if (loop.mode === 'cursor') return `for each ${name} that its query gives`;
  const list = typeof loop.in === 'string' ? condition(loop.in) : 'its list';
  const limit = loop.maxInFlight === undefined ? '' : `, at most ${clean(String(loop.maxInFlight))} at a time`;
  return `for each ${name} in ${list}, ${loop.mode === 'parallel' ? 'at the same time' : 'one after the other'}${limit}`;
}

function explainTask(task: Task): string {
  const rules = (task.policy?.rules ?? []).map(({ when, then }) => {
    const target = then.to === undefined ? '' : ` to ${clean(then.to)}`;
    const tries = then.attempts === undefined ? '' : ` (${clean(String(then.attempts))} tries)`;
    return `${then.do}${target}${tries}${when === undefined ? ' otherwise' : ` if ${condition(when)}`}`;
  });
  const child = task.child ? ` ${clean(task.child.planId)} version ${clean(task.child.planVersion)}` : '';
  return `${clean(task.name)}: ${clean(task.kind)}${child}${rules.length > 0 ? `; ${rules.join('; ')}` : ''}`;
}

function explainArc(arc: Arc): string {
  return `-> ${clean(arc.step)}${arc.when === undefined ? '' : ` if ${condition(arc.when)}`}`;
}

function condition(when: string | boolean): string {
  const text = String(when);
  const lone = /^\s*\{\{([^{}]*)\}\}\s*$/.exec(text);
  return clean((lone?.[1] ?? text).trim());
}

/** Names and templates are the author's: one line, not endless, nothing that moves the cursor. */
function clean(text: string): string {
  const line = text
    .slice(0, 200)
    .replace(/[\p{Cc}\p{Cf}]+/gu, ' ')
    .replace(/ {2,}/g, ' ');
  return text.length > 200 ? `${line}…` : line;
}

const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`;

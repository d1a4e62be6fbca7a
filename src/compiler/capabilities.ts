import type { PlanStep, Task } from '../contracts/plan.ts';

/** What a plan can demand of an engine. A playbook may name others; an engine that does not know one does not have it. */
export const CAPABILITIES = {
  'fan-out': 'several tokens of one run at the same time',
  'fan-in': 'a step that waits for every token that can still arrive (`join: all`)',
  timers: 'pauses and time limits that the engine keeps',
  'child-runs': 'runs inside runs',
  'cursor-loops': 'loops that draw their work from a query',
  PAUSE: 'a run can be paused and resumed',
  CANCEL: 'a run can be cancelled while steps are in flight',
  RETRY_STEP: 'a failed step can be run again while the run goes on',
  SKIP_STEP: 'a step that has not begun can be left out',
  'long-runs': 'a run of any number of steps and iterations',
  'run-ahead': 'steps that only compute or read do not wait for the commit of the step before',
} as const;
export type Capability = keyof typeof CAPABILITIES;

/** The capabilities that follow from what the steps do. */
export function inferCapabilities(steps: readonly PlanStep[], workbook: Readonly<Record<string, Task>>): string[] {
  const found = new Set<Capability>();
  for (const step of steps) {
    if (step.join) found.add('fan-in');
    if (step.loop?.mode === 'parallel') found.add('fan-out');
    if (step.loop?.mode === 'cursor') found.add('cursor-loops');
    if (step.next?.mode === 'inclusive' && step.next.arcs.length > 1) found.add('fan-out');
    if (step.timeoutS !== undefined || step.failure?.retry) found.add('timers');
    for (const task of step.tasks) if (needsChildRun(task, workbook)) found.add('child-runs');
  }
  return [...found];
}

function needsChildRun(task: Task, workbook: Readonly<Record<string, Task>>): boolean {
  if (task.kind === 'playbook') return true;
  const name = task.kind === 'workbook' ? task.with['name'] : undefined;
  return typeof name === 'string' && Object.hasOwn(workbook, name) && workbook[name]!.kind === 'playbook';
}

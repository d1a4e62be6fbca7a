import { Compile, type Validator } from 'typebox/compile';
import { Plan, type Task } from '../contracts/plan.ts';
import { hasTemplate } from '../kernel/expressions/scan-blocks.ts';
import { pointerPart } from './located.ts';

/** One thing that is wrong with a plan, and where: a JSON pointer into it. */
export interface PlanProblem {
  readonly path: string;
  readonly message: string;
}

const MAX_PROBLEMS = 50;
let validator: Validator | undefined;

/** Everything that makes a value no plan, whoever wrote it: its shape first, then what its names point at. */
export function planProblems(value: unknown): PlanProblem[] {
  // Compiled on first use: every command would pay for it at start-up.
  validator ??= Compile(Plan);
  return validator.Check(value) ? meaningProblems(value as Plan) : shapeProblems(validator, value);
}

function shapeProblems(plan: Validator, value: unknown): PlanProblem[] {
  const problems = new Map<string, PlanProblem>();
  for (const error of plan.Errors(value)) {
    if (problems.size >= MAX_PROBLEMS) break;
    const { instancePath, keyword } = error;
    if (keyword === 'boolean') problems.set(instancePath, { path: instancePath, message: 'is not a field of a plan' });
    else if (keyword === 'required') {
      for (const name of (error.params as { requiredProperties?: string[] }).requiredProperties ?? []) {
        const path = `${instancePath}/${name}`;
        problems.set(path, { path, message: 'is missing' });
      }
    } else if (keyword !== 'additionalProperties' && !problems.has(instancePath)) {
      problems.set(instancePath, { path: instancePath, message: error.message });
    }
  }
  return problems.size > 0 ? [...problems.values()] : [{ path: '', message: 'does not fit the schema of a plan' }];
}

/** Names that point at nothing. A runner would find them only in the middle of a run. */
function meaningProblems(plan: Plan): PlanProblem[] {
  const problems: PlanProblem[] = [];
  const add = (path: string, message: string): void => {
    if (problems.length < MAX_PROBLEMS) problems.push({ path, message });
  };
  const steps = new Map<string, number>();
  for (const [i, step] of plan.steps.entries()) {
    if (steps.has(step.stepId)) add(`/steps/${i}/stepId`, `'${step.stepId}' names two steps`);
    if (step.index !== i) add(`/steps/${i}/index`, `must be ${i}, the place in the list`);
    steps.set(step.stepId, i);
  }
  const target = (name: string, path: string): void => {
    if (!steps.has(name)) add(path, `there is no step '${name}'`);
  };
  target(plan.entryStep, '/entryStep');
  if (plan.finalStep !== undefined) target(plan.finalStep, '/finalStep');
  for (const [i, step] of plan.steps.entries()) {
    const path = `/steps/${i}`;
    if (step.tasks.length === 0 && !step.next) add(path, 'has neither tasks nor arcs');
    for (const [j, arc] of (step.next?.arcs ?? []).entries()) target(arc.step, `${path}/next/arcs/${j}/step`);
    for (const [j, name] of step.reaches.entries()) {
      const join = steps.get(name);
      if (join === undefined || plan.steps[join]!.join === undefined)
        add(`${path}/reaches/${j}`, `there is no join '${name}'`);
    }
    if (step.loop) loopProblem(step.loop, `${path}/loop`, add);
    pipelineProblems(step.tasks, `${path}/tasks`, plan, add);
  }
  for (const [name, task] of Object.entries(plan.workbook)) {
    const path = `/workbook/${pointerPart(name)}`;
    if (task.name !== name) add(`${path}/name`, `must be '${name}'`);
    if (task.kind === 'workbook') add(`${path}/kind`, 'a workbook task cannot run another one');
    taskProblems(task, path, 0, new Set([name]), plan, add);
  }
  return problems;
}

type Add = (path: string, message: string) => void;

function loopProblem(loop: NonNullable<Plan['steps'][number]['loop']>, path: string, add: Add): void {
  if (loop.mode === 'cursor' ? loop.cursor === undefined : loop.in === undefined) {
    add(path, loop.mode === 'cursor' ? 'needs a cursor' : 'needs a list');
  }
}

function pipelineProblems(tasks: Plan['steps'][number]['tasks'], path: string, plan: Plan, add: Add): void {
  const names = new Set<string>();
  for (const [i, task] of tasks.entries()) {
    if (names.has(task.name)) add(`${path}/${i}/name`, `'${task.name}' names two tasks`);
    names.add(task.name);
  }
  for (const [i, task] of tasks.entries()) taskProblems(task, `${path}/${i}`, i, names, plan, add);
}

function taskProblems(task: Task, path: string, index: number, names: ReadonlySet<string>, plan: Plan, add: Add): void {
  for (const [j, { then }] of (task.policy?.rules ?? []).entries()) {
    const isKnown = then.to !== undefined && (names.has(then.to) || (then.to === 'previous' && index > 0));
    if (then.do === 'jump' && !isKnown) add(`${path}/policy/rules/${j}/then/to`, 'is no task of this pipeline');
  }
  const entry = task.kind === 'workbook' ? task.with['name'] : undefined;
  if (typeof entry === 'string' && !hasTemplate(entry) && !Object.hasOwn(plan.workbook, entry)) {
    add(`${path}/with/name`, `the workbook has no task '${entry}'`);
  }
  if (task.child && !plan.children.some((child) => child.sha256 === task.child!.sha256)) {
    add(`${path}/child`, 'is not among the children of the plan');
  }
}

import type { Loop, Plan, PlanStep, RuleAction, Task } from '../contracts/plan.ts';
import { type Assignment, assignments, type Condition, compileCondition, compilePlan } from './compile-plan.ts';
import { type CompiledValue, compileValue } from './expressions/compile-value.ts';
import { isObject } from './payload-reader.ts';

/** A task of a pipeline with its templates compiled. */
export interface CompiledTask {
  readonly task: Task;
  readonly fields: CompiledValue;
  readonly timeout: CompiledValue | undefined;
  readonly rules: readonly CompiledRule[];
  readonly before: readonly (readonly Assignment[])[];
  readonly after: readonly (readonly Assignment[])[];
  readonly finally: readonly (readonly Assignment[])[];
  readonly set: readonly Assignment[];
  /** Some rule retries: every try is told by its own attempt events. */
  readonly retries: boolean;
}

export interface CompiledRule {
  readonly when: Condition;
  readonly action: RuleAction;
  readonly attempts: CompiledValue | undefined;
  readonly delay: CompiledValue | undefined;
  readonly set: readonly Assignment[];
}

export interface CompiledPipeline {
  readonly tasks: readonly CompiledTask[];
  readonly names: ReadonlyMap<string, number>;
  readonly iterator: string | undefined;
  readonly step: PlanStep | undefined;
  readonly input: CompiledValue | undefined;
  readonly stepSet: readonly Assignment[];
  /** Of a cursor loop: its first task claims a frame, and the others run for each row of it, or once for all of them. */
  readonly cursor: 'row' | 'frame' | undefined;
  readonly frame: CompiledValue | undefined;
  readonly isBestEffort: boolean;
  /** The names of its own that its tasks assign, at whatever time. */
  readonly locals: ReadonlySet<string>;
}

const PIPELINES = new WeakMap<Plan, Map<string, CompiledPipeline>>();

/** The pipeline of a step. Compiled when it is first used: a worker runs few of the steps of a large plan. */
export function compilePipeline(plan: Plan, stepName: string): CompiledPipeline {
  const known = PIPELINES.get(plan) ?? new Map<string, CompiledPipeline>();
  PIPELINES.set(plan, known);
  const found = known.get(stepName);
  if (found) return found;
  const step = compilePlan(plan).steps.get(stepName)?.step;
  const pointer = `/steps/${step ? plan.steps.indexOf(step) : 0}`;
  const own = (step?.tasks ?? []).map((task, i) => compileTask(task, `${pointer}/tasks/${i}`));
  const loop = step?.loop;
  const isCursor = loop?.mode === 'cursor';
  const tasks = isCursor ? [compileTask(claimTask(loop), `${pointer}/loop/cursor`), ...own] : own;
  const pipeline: CompiledPipeline = {
    tasks,
    names: new Map(tasks.map(({ task }, i) => [task.name, i])),
    iterator: step?.loop?.iterator,
    step,
    input: value(step?.input, `${pointer}/input`),
    cursor: isCursor ? (loop.frame?.['process'] === 'frame' ? 'frame' : 'row') : undefined,
    frame: isCursor ? value(loop.frame, `${pointer}/loop/frame`) : undefined,
    isBestEffort: step?.failure?.mode === 'best_effort',
    stepSet: step?.loop ? [] : assignments(step?.set, `${pointer}/set`, value),
    locals: new Set(tasks.flatMap(localsOf)),
  };
  known.set(stepName, pipeline);
  return pipeline;
}

/** The task that claims the frame of an iteration. It is recorded like any other, so that a claim is never made twice. */
export const CLAIM_TASK = 'cursor_claim';

function claimTask({ cursor = {} }: Loop): Task {
  const { kind, claim, options, ...fields } = cursor;
  const { timeout, ...more } = isObject(options) ? options : {};
  const limit = typeof timeout === 'number' || typeof timeout === 'string' ? { timeout } : {};
  return { name: CLAIM_TASK, kind: String(kind ?? 'postgres'), with: { ...fields, ...more, command: claim }, ...limit };
}

const value = (source: unknown, pointer: string): CompiledValue | undefined =>
  source === undefined ? undefined : compileValue(source, pointer);

function compileTask(task: Task, pointer: string): CompiledTask {
  const { policy } = task;
  const hook = (name: 'before' | 'after' | 'finally') =>
    (policy?.[name] ?? []).map((set, i) => assignments(set, `${pointer}/policy/${name}/${i}`, value));
  return {
    task,
    fields: compileValue(task.with, `${pointer}/with`),
    timeout: value(task.timeout, `${pointer}/timeout`),
    rules: (policy?.rules ?? []).map((rule, i) => {
      const at = `${pointer}/policy/rules/${i}`;
      return {
        when: compileCondition(rule.when, `${at}/when`),
        action: rule.then,
        attempts: value(rule.then.attempts, `${at}/then/attempts`),
        delay: value(rule.then.delay, `${at}/then/delay`),
        set: assignments(rule.then.set, `${at}/then/set`, value),
      };
    }),
    before: hook('before'),
    after: hook('after'),
    finally: hook('finally'),
    set: assignments(task.set, `${pointer}/set`, value),
    retries: policy?.rules.some((rule) => rule.then.do === 'retry') ?? false,
  };
}

function localsOf({ set, rules, before, after, finally: last }: CompiledTask): string[] {
  const lists = [set, ...before, ...after, ...last, ...rules.map((rule) => rule.set)];
  const targets = lists.flatMap((list) => list.map(({ target }) => target));
  return targets.filter((target) => !target.startsWith('ctx.') && !target.startsWith('iter.'));
}

import type { Arc, Loop, Plan, PlanStep, Task } from '../contracts/plan.ts';
import { compileTemplate, type Template } from './expressions/compile-template.ts';
import { type CompiledValue, compileValue } from './expressions/compile-value.ts';
import { placedAt } from './expressions/failure.ts';
import { multiInstanceNames } from './plan-graph.ts';
import { initialState, type RunState } from './state.ts';

/** A condition: a template that is read as true or false, or the answer itself. */
export type Condition = Template | boolean;

export interface CompiledArc {
  readonly arc: Arc;
  readonly index: number;
  readonly when: Condition;
  readonly args: CompiledValue | undefined;
  readonly set: readonly Assignment[];
  /** The spelling of the boundary that its condition uses, if it is an old or a wider one. */
  readonly spelling: 'call.done' | 'step.done' | undefined;
}

/** One assignment: `ctx.x`, `iter.y` or a name of the pipeline, and the value that it gets. */
export interface Assignment {
  readonly target: string;
  readonly value: CompiledValue;
}

export interface CompiledStep {
  readonly step: PlanStep;
  readonly arcs: readonly CompiledArc[];
  readonly admit: readonly { readonly when: Condition; readonly allow: boolean; readonly reason: string | undefined }[];
  readonly loopIn: CompiledValue | undefined;
  readonly set: readonly Assignment[];
  /** A fixed number needs no evaluation; most plans have nothing else. */
  readonly timeoutS: CompiledValue | undefined;
  readonly maxInFlight: CompiledValue | undefined;
  readonly retry: CompiledRetry | undefined;
}

export interface CompiledRetry {
  readonly attempts: CompiledValue;
  readonly delay: CompiledValue | undefined;
  readonly maxDelay: CompiledValue | undefined;
  readonly backoff: 'none' | 'fixed' | 'linear' | 'exponential' | undefined;
}

export interface Join {
  readonly name: string;
  readonly sources: ReadonlySet<string>;
  /** Who was found alive last time: only a place to look first, so that a wide join is not searched at every arrival. */
  hint: string;
}

/** A plan with its templates compiled and its indexes made. One per plan object. */
export interface CompiledPlan {
  readonly plan: Plan;
  readonly steps: ReadonlyMap<string, CompiledStep>;
  /** Joins in plan order, each with the steps from which it can be reached. */
  readonly joins: readonly Join[];
  readonly joinNames: ReadonlySet<string>;
  /** Names of the steps whose results some template reads, and those of them that can have several instances. */
  readonly readNames: ReadonlySet<string>;
  readonly lineageNames: ReadonlySet<string>;
}

const COMPILED = new WeakMap<Plan, CompiledPlan>();

export function compilePlan(plan: Plan): CompiledPlan {
  const known = COMPILED.get(plan);
  if (known) return known;
  const names = new Set(plan.steps.map((step) => step.stepId));
  const roots = new Set<string>();
  const steps = new Map(plan.steps.map((step, i) => [step.stepId, compileStep(step, `/steps/${i}`, roots)]));
  for (const task of Object.values(plan.workbook)) collectRoots(task, roots);
  const readNames = new Set([...roots].filter((name) => names.has(name)));
  const multi = multiInstanceNames(plan);
  const joins = plan.steps
    .filter((step) => step.join)
    .map((step) => ({ name: step.stepId, sources: new Set<string>(), hint: '' }));
  const byName = new Map(joins.map((join) => [join.name, join]));
  for (const { stepId, reaches } of plan.steps) {
    for (const name of reaches) if (name !== stepId) byName.get(name)?.sources.add(stepId);
  }
  const compiled: CompiledPlan = {
    plan,
    steps,
    joins,
    joinNames: new Set(byName.keys()),
    readNames,
    lineageNames: new Set([...readNames].filter((name) => multi.has(name))),
  };
  COMPILED.set(plan, compiled);
  return compiled;
}

/** The state from which an engine folds runs of this plan: it keeps what the plan's templates and arcs can ask for. */
export function engineState(plan: Plan, runId: string): RunState {
  const { readNames, lineageNames } = compilePlan(plan);
  return initialState(runId, { keepFinished: false, results: readNames, lineage: lineageNames });
}

function compileStep(step: PlanStep, pointer: string, roots: Set<string>): CompiledStep {
  const value = (source: unknown, at: string): CompiledValue | undefined => {
    if (source === undefined) return undefined;
    const compiled = compileValue(source, `${pointer}${at}`);
    for (const root of compiled.roots) roots.add(root);
    return compiled;
  };
  const condition = (when: string | boolean | undefined, at: string): Condition =>
    compileCondition(when, `${pointer}${at}`, roots);
  const retry = step.failure?.retry;
  for (const task of step.tasks) collectRoots(task, roots);
  value(step.input, '/input');
  value(step.loop?.cursor, '/loop/cursor');
  value(step.loop?.frame, '/loop/frame');
  return {
    step,
    arcs: (step.next?.arcs ?? []).map((arc, index) => ({
      arc,
      index,
      when: condition(arc.when, `/next/arcs/${index}/when`),
      args: value(arc.args, `/next/arcs/${index}/args`),
      set: assignments(arc.set, `/next/arcs/${index}/set`, value),
      spelling: spellingOf(arc.when, step.loop),
    })),
    admit: (step.admit?.rules ?? []).map((rule, index) => ({
      when: condition(rule.when, `/admit/rules/${index}/when`),
      allow: rule.allow,
      reason: rule.reason,
    })),
    loopIn: value(step.loop?.in, '/loop/in'),
    set: assignments(step.set, '/set', value),
    timeoutS: value(step.timeoutS, '/timeoutS'),
    maxInFlight: value(step.loop?.maxInFlight, '/loop/maxInFlight'),
    retry: retry && {
      attempts: value(retry.attempts, '/failure/retry/attempts') as CompiledValue,
      delay: value(retry.delay, '/failure/retry/delay'),
      maxDelay: value(retry.maxDelay, '/failure/retry/maxDelay'),
      backoff: retry.backoff,
    },
  };
}

export function assignments(
  set: Readonly<Record<string, unknown>> | undefined,
  at: string,
  compile: (source: unknown, at: string) => CompiledValue | undefined,
): Assignment[] {
  return Object.entries(set ?? {}).map(([target, source]) => ({
    target,
    value: compile(source, `${at}/${target}`) ?? compileValue(null),
  }));
}

/** No condition means yes. A text without a block is a condition that was written without braces: it is what it says. */
export function compileCondition(when: string | boolean | undefined, pointer: string, roots?: Set<string>): Condition {
  if (when === undefined) return true;
  if (typeof when === 'boolean') return when;
  const template = compileTemplate(when);
  for (const root of template.roots) roots?.add(root);
  const evaluate: Template['evaluate'] = (scope, options) => {
    try {
      return template.evaluate(scope, options);
    } catch (thrown) {
      throw placedAt(thrown, pointer);
    }
  };
  return { ...template, evaluate };
}

/**
 * `call.done` is an old name of `step.done`, and the end of a loop is the end of its step: a condition that asks for
 * one of these names, and not for the boundary's own, is evaluated with the name that it asks for.
 */
function spellingOf(when: string | boolean | undefined, loop: Loop | undefined): CompiledArc['spelling'] {
  if (typeof when !== 'string') return undefined;
  if (when.includes(loop ? 'loop.done' : 'step.done')) return undefined;
  if (when.includes('call.done')) return 'call.done';
  return loop && when.includes('step.done') ? 'step.done' : undefined;
}

/** Every root name that a task's templates read; the runner evaluates them, but the state must have kept the values. */
function collectRoots(task: Task, roots: Set<string>): void {
  const walk = (value: unknown): void => {
    if (typeof value === 'string') {
      // Tool fields may hold text that only looks like a template (a shell script, a SQL file): the compiler decided
      // about that, so what does not parse here has no names to keep.
      try {
        for (const root of compileTemplate(value).roots) roots.add(root);
      } catch {
        return;
      }
    } else if (typeof value === 'object' && value !== null) {
      for (const inner of Object.values(value)) walk(inner);
    }
  };
  walk(task);
}

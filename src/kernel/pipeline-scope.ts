import type { Plan, Task } from '../contracts/plan.ts';
import type { Outcome, StoredValue } from '../contracts/values.ts';
import type { Assignment } from './compile-plan.ts';
import { patchCtx } from './ctx.ts';
import { stepNameOf } from './entity-path.ts';
import { NeedValues } from './expressions/evaluation.ts';
import { ResultValue } from './expressions/external-value.ts';
import { isObject, type JsonObject } from './payload-reader.ts';
import { CLAIM_TASK, type CompiledPipeline, compilePipeline } from './pipeline-plan.ts';
import type { PipelineState } from './pipeline-state.ts';
import { evalOptions, RunScope, type Values } from './run-scope.ts';
import type { RunState } from './state.ts';
import { templateValue } from './step-values.ts';

/** One unit of work: a step attempt, or one iteration of it. */
export interface PipelineContext {
  readonly plan: Plan;
  readonly state: RunState;
  readonly stepId: string;
  readonly attempt: number;
  readonly iteration?: { readonly index: number; readonly item: unknown; readonly parent?: unknown };
  readonly values?: Values;
  /** Jitter for retries, in [0, 1). */
  readonly random?: number;
}

/** How a call ended, in the words of the language, with the value that templates will see (already redacted). */
export type TaskOutcome = Outcome & { readonly result?: StoredValue; readonly [detail: string]: unknown };

/** What the templates of one pipeline see. */
export class PipelineScopes {
  readonly context: PipelineContext;
  readonly pipeline: CompiledPipeline;
  readonly options: ReturnType<typeof evalOptions>;

  constructor(context: PipelineContext) {
    this.context = context;
    this.pipeline = compilePipeline(context.plan, stepNameOf(context.stepId));
    this.options = evalOptions(context.values);
  }

  /** Beyond the run: the iteration, earlier tasks, the pipeline's own names, and in a policy the outcome. */
  scope(state: PipelineState, task?: Task, outcome?: TaskOutcome, extra?: Record<string, unknown>): RunScope {
    const { plan, state: run, stepId, iteration, values } = this.context;
    const { iterator, locals: declared } = this.pipeline;
    const step = run.open.get(stepId);
    const own: Record<string, unknown> = { ...this.taskValues(state), ...state.locals };
    const iter: Record<string, unknown> = {};
    if (iteration) {
      if (iterator !== undefined) own[iterator] = iter[iterator] = this.#item(state);
      iter['index'] = iteration.index;
      iter['parent'] = iteration.parent ?? null;
      if (this.pipeline.frame && task?.name === CLAIM_TASK) iter['frame'] = this.#frame();
    }
    own['iter'] = Object.assign(iter, state.iterSet);
    own['_prev'] = state.previous === undefined ? null : new ResultValue(templateValue(state.previous));
    if (task) {
      own['_task'] = task.name;
      own['_attempt'] = state.attempt;
    }
    if (outcome) own['outcome'] = own['output'] = outcomeValue(outcome);
    if (Object.keys(state.ctxSet).length > 0) own['ctx'] = patchCtx(run.ctx, state.ctxSet);
    if (extra) Object.assign(own, extra);
    return new RunScope(plan, run, values, { args: step?.args, lineage: step?.lineage, own, declared });
  }

  /** The item of the list, or of a cursor the row, or all rows of the frame. */
  #item(state: PipelineState): unknown {
    const { cursor } = this.pipeline;
    if (cursor === undefined) return this.context.iteration?.item;
    const claimed = state.results[CLAIM_TASK];
    if (!claimed) return undefined;
    const { rows } = claimedRows(claimed, this.context.values);
    return cursor === 'row' ? rows[state.row] : rows;
  }

  /** How much is to be taken at a time, as the claim reads it. */
  #frame(): unknown {
    const { plan, state: run, stepId, values } = this.context;
    const step = run.open.get(stepId);
    const scope = new RunScope(plan, run, values, { args: step?.args, lineage: step?.lineage });
    return this.pipeline.frame?.evaluate(scope, this.options);
  }

  taskValues(state: PipelineState): Record<string, unknown> {
    const values: Record<string, unknown> = {};
    for (const [name, result] of Object.entries(state.results)) values[name] = new ResultValue(templateValue(result));
    return values;
  }

  /** The values of assignments by target; what is undefined is assigned as null. */
  evaluate(list: readonly Assignment[], scope: RunScope): JsonObject {
    const set: Record<string, unknown> = {};
    for (const { target, value } of list) {
      const result = value.evaluate(scope, this.options);
      Object.defineProperty(set, target, {
        value: result === undefined ? null : result,
        enumerable: true,
        configurable: true,
        writable: true,
      });
    }
    return set;
  }
}

/** The rows of a claim, and how many the database says that it took. */
export function claimedRows(
  stored: StoredValue | undefined,
  values: Values,
): { readonly rows: readonly unknown[]; readonly count: number } {
  let value: unknown = null;
  if (stored && 'value' in stored) value = stored.value;
  else if (stored) {
    const { uri } = stored.ref;
    if (!values || !Object.hasOwn(values, uri)) throw new NeedValues([uri]);
    value = values[uri];
  }
  const found = isObject(value) ? value['rows'] : value;
  const rows = Array.isArray(found) ? found : [];
  const count = isObject(value) ? Number(value['row_count'] ?? rows.length) : rows.length;
  return { rows, count: Number.isFinite(count) ? count : rows.length };
}

/** `outcome` and `output` in a policy: what the tool said, with its result under both of its names. */
function outcomeValue(outcome: TaskOutcome): Record<string, unknown> {
  const { result, ...told } = outcome;
  const value = new ResultValue(templateValue(result));
  return { ...told, result: value, data: value };
}

import { AppError } from '../contracts/errors.ts';
import type { Task } from '../contracts/plan.ts';
import type { ErrorInfo, Outcome, StoredValue } from '../contracts/values.ts';
import { backoffMillis } from '../lib/backoff.ts';
import type { EventDraft, Settled } from './commands.ts';
import type { Assignment } from './compile-plan.ts';
import { errorInfo, numberOf } from './deciding.ts';
import { stepNameOf, taskEntity, unitEntity } from './entity-path.ts';
import { NeedValues } from './expressions/evaluation.ts';
import { ResultValue } from './expressions/external-value.ts';
import { isObject, type JsonObject } from './payload-reader.ts';
import { errorOfOutcome, type Judgement, judge } from './pipeline-judge.ts';
import type { CompiledTask } from './pipeline-plan.ts';
import { claimedRows, type PipelineContext, PipelineScopes, type TaskOutcome } from './pipeline-scope.ts';
import {
  assigned,
  jumpTarget,
  moved,
  PIPELINE_START,
  type PipelineState,
  recorded,
  rowCount,
  rowEnded,
  withArtifacts,
} from './pipeline-state.ts';
import { templateValue } from './step-values.ts';

/** What the runner has to do now, and what to record first. */
export type Instruction = { readonly state: PipelineState; readonly events: readonly EventDraft[] } & (
  | {
      readonly do: 'run';
      readonly task: Task;
      /** `step[/iteration]/task:run`. */
      readonly entity: string;
      readonly attempt: number;
      readonly timeoutMs?: number;
    }
  /** Try the same task again after this time. */
  | { readonly do: 'wait'; readonly millis: number }
  | { readonly do: 'end'; readonly settled: Settled; readonly set: JsonObject }
);
export type PipelineAnswer = Instruction | { readonly need: readonly string[] };

/** What to do in this state: run the task at its position, or end. */
export function nextInPipeline(context: PipelineContext, state: PipelineState = PIPELINE_START): PipelineAnswer {
  return answering(() => new Machine(context).next(state));
}

/** What to do after the task at the state's position ended with this outcome. */
export function afterOutcome(context: PipelineContext, state: PipelineState, outcome: TaskOutcome): PipelineAnswer {
  return answering(() => new Machine(context).after(state, outcome));
}

/**
 * The tool's fields for the task at the state's position, rendered just before the call. This is the only place where
 * `keychain` is visible; what comes out is never recorded.
 */
export function renderFields(
  context: PipelineContext,
  state: PipelineState,
  keychain: JsonObject,
): { readonly fields: JsonObject; readonly input: unknown } | { readonly need: readonly string[] } {
  return answering(() => new Machine(context).render(state, keychain));
}

function answering<T>(work: () => T): T | { need: readonly string[] } {
  try {
    return work();
  } catch (thrown) {
    if (thrown instanceof NeedValues) return { need: thrown.refs };
    throw thrown;
  }
}

/** What one task has come to. */
interface Ending {
  readonly compiled: CompiledTask;
  readonly outcome: TaskOutcome;
  readonly told: Outcome;
  readonly result: StoredValue;
  readonly events: EventDraft[];
}

class Machine {
  readonly #scopes: PipelineScopes;
  readonly #unit: string;

  constructor(context: PipelineContext) {
    this.#scopes = new PipelineScopes(context);
    this.#unit = unitEntity(context.stepId, context.iteration?.index);
  }

  next(state: PipelineState): Instruction {
    if (state.end !== undefined || state.position >= this.#scopes.pipeline.tasks.length) return this.#end(state, []);
    const compiled = this.#task(state);
    const { task } = compiled;
    const run = (state.runs[task.name] ?? 0) + (state.isStarted ? 0 : 1);
    const begun: PipelineState = { ...state, isStarted: true, runs: { ...state.runs, [task.name]: run } };
    const events: EventDraft[] = [];
    if (!state.isStarted) events.push(this.#event('TaskStarted', task, begun, startPayload(task)));
    if (compiled.retries) {
      events.push(this.#event('TaskAttemptStarted', task, begun, { attempt: begun.attempt }, begun.attempt));
    }
    try {
      const prepared = this.#assignAll(begun, compiled.before, task);
      const timeoutMs = this.#timeout(compiled, prepared);
      const entity = taskEntity(this.#unit, task.name, run);
      const limit = timeoutMs === undefined ? {} : { timeoutMs };
      return { do: 'run', state: prepared, events, task, entity, attempt: prepared.attempt, ...limit };
    } catch (thrown) {
      return this.#failed(begun, task, errorInfo(passNeeds(thrown), 'template'), events, {});
    }
  }

  #timeout(compiled: CompiledTask, state: PipelineState): number | undefined {
    if (!compiled.timeout) return undefined;
    const scope = this.#scopes.scope(state, compiled.task);
    const seconds = numberOf(compiled.timeout.evaluate(scope, this.#scopes.options), 'timeout');
    return Math.max(0, Math.round(seconds * 1000));
  }

  after(given: PipelineState, outcome: TaskOutcome): Instruction {
    const compiled = this.#task(given);
    const { task } = compiled;
    const { result = { value: null }, ...told } = outcome;
    const ending: Ending = { compiled, outcome, told, result, events: [] };
    if (compiled.retries) ending.events.push(this.#attemptEnded(given, ending));
    let judgement: Judgement;
    let state: PipelineState;
    try {
      state = this.#assignAll(this.#counted(given, outcome), compiled.after, task, outcome);
      judgement = judge(this.#scopes, compiled, state, outcome);
    } catch (thrown) {
      return this.#failed(given, task, errorInfo(passNeeds(thrown), 'template'), ending.events, {
        outcome: told,
        result,
      });
    }
    state = assigned(state, judgement.set);
    const isRetry = judgement.action.do === 'retry';
    if (compiled.rules.length > 0) {
      const set = isRetry ? state.pending : judgement.set;
      const payload = { matchedRuleIndex: judgement.index, action: judgement.action, ...unlessEmpty('set', set) };
      ending.events.push(this.#event('PolicyTaskEvaluated', task, state, payload, state.attempt));
    }
    if (!isRetry) return this.#taskEnded(state, ending, judgement);
    const { backoff, delay } = judgement.action;
    const millis = backoffMillis({ backoff, delay }, state.attempt, this.#scopes.context.random ?? 0.5);
    return { do: 'wait', state: { ...recorded(state), attempt: state.attempt + 1 }, events: ending.events, millis };
  }

  /** A claim tells how many rows it gave: that alone decides whether the cursor has come to its end. */
  #counted(state: PipelineState, outcome: TaskOutcome): PipelineState {
    if (this.#scopes.pipeline.cursor === undefined || state.position > 0 || outcome.status !== 'ok') return state;
    const { rows, count } = claimedRows(outcome.result, this.#scopes.context.values);
    if (rows.length < count) {
      const message = `The claim took ${count} rows, of which only ${rows.length} are known; claim fewer at a time.`;
      throw new AppError('RESULT_TOO_LARGE', message);
    }
    return assigned(state, { 'iter.rows': rows.length });
  }

  render(state: PipelineState, keychain: JsonObject): { fields: JsonObject; input: unknown } {
    const { fields, task } = this.#task(state);
    const { options, pipeline } = this.#scopes;
    const rendered = fields.evaluate(this.#scopes.scope(state, task, undefined, { keychain }), options) as JsonObject;
    const input = pipeline.input?.evaluate(this.#scopes.scope(state, task), options);
    return {
      fields: isObject(rendered['input'])
        ? { ...rendered, input: allNamed(task.with['input'], rendered['input']) }
        : rendered,
      input: isObject(input) ? allNamed(pipeline.step?.input, input) : input,
    };
  }

  #attemptEnded(state: PipelineState, { compiled, outcome, told }: Ending): EventDraft {
    const { attempt } = state;
    const isOk = outcome.status === 'ok';
    const payload = isOk
      ? { attempt, outcome: told, ...(outcome.result === undefined ? {} : { result: outcome.result }) }
      : { attempt, outcome: told, error: errorOfOutcome(outcome) };
    return this.#event(isOk ? 'TaskAttemptDone' : 'TaskAttemptFailed', compiled.task, state, payload, attempt);
  }

  /** No more tries: the task's own end is recorded, and the pipeline goes where the judgement says. */
  #taskEnded(judged: PipelineState, ending: Ending, { action, error }: Judgement): Instruction {
    const { compiled, outcome, told, result, events } = ending;
    const { task } = compiled;
    const isDone = outcome.status === 'ok' && action.do !== 'fail';
    const results = { ...judged.results, [task.name]: result };
    let state: PipelineState = { ...withArtifacts(judged, told), results, previous: result };
    try {
      if (isDone) state = this.#assignAll(state, [compiled.set], task, outcome);
      state = this.#assignAll(state, compiled.finally, task, outcome);
    } catch (thrown) {
      return this.#failed(state, task, errorInfo(passNeeds(thrown), 'template'), events, { outcome: told, result });
    }
    const problem = isDone ? undefined : (error ?? errorOfOutcome(outcome));
    const said = { ...unlessEmpty('set', state.pending), outcome: told, result };
    events.push(
      problem
        ? this.#event('TaskFailed', task, state, { attempts: state.attempt, error: problem, ...said })
        : this.#event('TaskDone', task, state, { attempts: state.attempt, ...said }),
    );
    const rested: PipelineState = { ...recorded(state), attempt: 1, isStarted: false };
    switch (action.do) {
      case 'fail':
        return this.#go(rowEnded(this.#scopes.pipeline, rested, withKind(problem as ErrorInfo)), events);
      case 'break':
        return this.#go(rowEnded(this.#scopes.pipeline, rested), events);
      case 'jump': {
        const position = jumpTarget(this.#scopes.pipeline, rested.position, action.to) ?? rested.position;
        return this.#go({ ...rested, position, jumps: rested.jumps + 1 }, events);
      }
      default:
        return this.#go(moved(this.#scopes.pipeline, rested), events);
    }
  }

  #go(state: PipelineState, events: EventDraft[]): Instruction {
    const following = this.next(state);
    return { ...following, events: [...events, ...following.events] };
  }

  /** A template of the task failed: so does the task, whatever its call did. */
  #failed(
    state: PipelineState,
    task: Task,
    error: ErrorInfo,
    events: EventDraft[],
    said: { outcome?: Outcome; result?: StoredValue },
  ): Instruction {
    const payload = { attempts: state.attempt, error, ...unlessEmpty('set', state.pending), ...said };
    const failure = this.#event('TaskFailed', task, state, payload);
    const rested: PipelineState = { ...recorded(state), attempt: 1, isStarted: false };
    return this.#go(rowEnded(this.#scopes.pipeline, rested, withKind(error)), [...events, failure]);
  }

  #end(state: PipelineState, events: readonly EventDraft[]): Instruction {
    if (state.end !== undefined && state.end !== 'done') {
      const { kind, code, message, retryable } = state.end.error;
      const error = { category: kind, code, message, retryable };
      const result = state.previous === undefined ? {} : { result: state.previous };
      // Who cannot claim once would try for ever.
      const isClaim = this.#scopes.pipeline.cursor !== undefined && state.position === 0;
      const last = isClaim ? ({ exhausted: true } as const) : {};
      const settled = { status: 'failed', error, ...result, ...artifactsIn(state), ...last } as const;
      return { do: 'end', state, events, set: state.ctxSet, settled };
    }
    const frame = this.#frameEnd(state);
    if (frame) return { do: 'end', state, events, set: state.ctxSet, settled: { ...frame, ...artifactsIn(state) } };
    const result = state.previous ?? { value: null };
    try {
      const final = this.#stepAssignments({ ...state, end: 'done' }, result);
      const several = this.#scopes.pipeline.tasks.length > 1 ? { taskResults: state.results } : {};
      return {
        do: 'end',
        state: final,
        events,
        set: final.ctxSet,
        settled: { status: 'completed', result, ...several, ...artifactsIn(state) },
      };
    } catch (thrown) {
      const error = errorInfo(passNeeds(thrown), 'template');
      const settled = { status: 'failed', error, result, ...artifactsIn(state) } as const;
      return { do: 'end', state, events, set: state.ctxSet, settled };
    }
  }

  /** What an iteration of a cursor says: that there was no more work, or what each row gave. */
  #frameEnd(state: PipelineState): Settled | undefined {
    const { cursor } = this.#scopes.pipeline;
    if (cursor === undefined) return undefined;
    const rows = rowCount(state);
    if (rows === 0) return { status: 'completed', exhausted: true, result: { value: [] }, rows };
    return cursor === 'row' ? { status: 'completed', rowResults: state.rowResults, rows } : undefined;
  }

  /** The step's own `set`, with its result under its own name. A loop's is evaluated where the loop ends. */
  #stepAssignments(state: PipelineState, result: StoredValue): PipelineState {
    const { stepSet } = this.#scopes.pipeline;
    if (stepSet.length === 0) return state;
    const value = new ResultValue(templateValue(result), this.#scopes.taskValues(state));
    const outcome = { status: 'ok', result: value, data: value };
    const event = { name: 'step.done', status: 'success', result: value };
    const own = { [stepNameOf(this.#scopes.context.stepId)]: value, outcome, output: outcome, event };
    const scope = this.#scopes.scope(state, undefined, undefined, own);
    return recorded(assigned(state, this.#scopes.evaluate(stepSet, scope)));
  }

  /** Each list sees what the ones before it assigned. */
  #assignAll(
    state: PipelineState,
    lists: readonly (readonly Assignment[])[],
    task: Task,
    outcome?: TaskOutcome,
  ): PipelineState {
    let after = state;
    for (const list of lists) {
      if (list.length === 0) continue;
      after = assigned(after, this.#scopes.evaluate(list, this.#scopes.scope(after, task, outcome)));
    }
    return after;
  }

  #task(state: PipelineState): CompiledTask {
    const task = this.#scopes.pipeline.tasks[state.position];
    if (!task) throw new AppError('INTERNAL', `The pipeline of '${this.#unit}' has no task ${state.position}.`);
    return task;
  }

  #event(
    eventType: EventDraft['eventType'],
    task: Task,
    state: PipelineState,
    payload: Record<string, unknown>,
    attempt?: number,
  ): EventDraft {
    return {
      eventType,
      stepId: this.#scopes.context.stepId,
      entity: taskEntity(this.#unit, task.name, state.runs[task.name] ?? 1, attempt),
      logicalAttemptId: this.#scopes.context.attempt,
      payload,
    };
  }
}

const artifactsIn = ({ artifacts }: PipelineState) => (artifacts.length === 0 ? {} : { artifacts });

/** The keys of an input are variables of a program: one that came out undefined is there, and is null. */
function allNamed(source: unknown, rendered: JsonObject): JsonObject {
  if (!isObject(source)) return rendered;
  return { ...Object.fromEntries(Object.keys(source).map((key) => [key, null])), ...rendered };
}

/** A value that is needed is no failure of the task. */
function passNeeds(thrown: unknown): unknown {
  if (thrown instanceof NeedValues) throw thrown;
  return thrown;
}

function unlessEmpty(key: string, set: JsonObject): Record<string, unknown> {
  return Object.keys(set).length === 0 ? {} : { [key]: set };
}

function startPayload(task: Task): Record<string, unknown> {
  const operation = task.with['operation'];
  const effect = task.effect?.class;
  return {
    task: task.name,
    tool: task.kind,
    ...(typeof operation === 'string' && !operation.includes('{') ? { operation } : {}),
    ...(effect === undefined ? {} : { effect }),
  };
}

const withKind = ({ category, code, message, retryable }: ErrorInfo) => ({ kind: category, code, message, retryable });

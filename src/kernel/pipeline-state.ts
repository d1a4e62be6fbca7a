import type { ArtifactRef, Outcome, StoredValue } from '../contracts/values.ts';
import { patchCtx } from './ctx.ts';
import { parseEntity } from './entity-path.ts';
import { artifactsOf, isObject, type JsonObject, objectOf, storedValueOf, textOf } from './payload-reader.ts';
import { CLAIM_TASK, type CompiledPipeline } from './pipeline-plan.ts';

/**
 * Where a pipeline stands. Plain data: a redelivered step gets the same state back from the events that were recorded
 * (`resumePipeline`), so nothing that was done is done again.
 */
export interface PipelineState {
  /** Index of the task that runs or comes next; the number of tasks when the pipeline has ended. */
  readonly position: number;
  /** How often each task has begun. */
  readonly runs: Readonly<Record<string, number>>;
  /** The try that runs or comes next, and whether this run of the task was announced. */
  readonly attempt: number;
  readonly isStarted: boolean;
  readonly jumps: number;
  readonly results: Readonly<Record<string, StoredValue>>;
  readonly previous: StoredValue | undefined;
  /** Of a frame that is worked on row by row: the row, what the rows before it gave, and the first failure among them. */
  readonly row: number;
  readonly rowResults: readonly StoredValue[];
  readonly rowFailure: PipelineError | undefined;
  /** What its tasks have stored outside of the log. */
  readonly artifacts: readonly ArtifactRef[];
  /** What the pipeline has assigned: to ctx (by path), to the iteration, and to names of its own. */
  readonly ctxSet: JsonObject;
  readonly iterSet: JsonObject;
  readonly locals: JsonObject;
  /** Assignments of the task under way that no event has recorded yet, by target. */
  readonly pending: JsonObject;
  /** How it ended. */
  readonly end: 'done' | { readonly error: PipelineError } | undefined;
}

export type PipelineError = NonNullable<Outcome['error']> & { readonly message: string; readonly code: string };

export const PIPELINE_START: PipelineState = Object.freeze({
  position: 0,
  runs: {},
  attempt: 1,
  isStarted: false,
  jumps: 0,
  results: {},
  previous: undefined,
  row: 0,
  rowResults: [],
  rowFailure: undefined,
  artifacts: [],
  ctxSet: {},
  iterSet: {},
  locals: {},
  pending: {},
  end: undefined,
});

/** Takes assignments in. Keys are targets: `ctx.x`, `iter.y`, or a name of the pipeline. */
export function assigned(state: PipelineState, set: JsonObject): PipelineState {
  let { ctxSet, iterSet, locals } = state;
  for (const [target, value] of Object.entries(set)) {
    if (target.startsWith('ctx.')) ctxSet = lastly(ctxSet, target.slice('ctx.'.length), value);
    else if (target.startsWith('iter.')) iterSet = patchCtx(iterSet, { [target.slice('iter.'.length)]: value });
    else locals = patchCtx(locals, { [target]: value });
  }
  return { ...state, ctxSet, iterSet, locals, pending: { ...state.pending, ...set } };
}

/** The newest assignment comes last, because `a` after `a.b` means something else than before it. */
function lastly(set: JsonObject, path: string, value: unknown): JsonObject {
  const { [path]: _old, ...rest } = set;
  return { ...rest, [path]: value };
}

/** The pending assignments were recorded. */
export function recorded(state: PipelineState): PipelineState {
  return { ...state, pending: {} };
}

/** An event of the step's own attempt (or of one of its iterations), in the order of the log. */
export interface RecordedTaskEvent {
  readonly eventType: string;
  readonly entity?: string | undefined;
  readonly payload?: JsonObject | undefined;
}

/**
 * The state after the recorded events of one unit of work (a step attempt, or an iteration). Decisions are read from
 * the record and not made again: ctx may have changed since, and what was decided stands.
 */
export function resumePipeline(
  pipeline: CompiledPipeline,
  unit: string,
  events: Iterable<RecordedTaskEvent>,
): PipelineState {
  let state: PipelineState = PIPELINE_START;
  let action: JsonObject | undefined;
  for (const event of events) {
    const place = event.entity === undefined ? undefined : parseEntity(event.entity);
    if (place?.part === undefined || !event.entity?.startsWith(`${unit}/${place.part}:`)) continue;
    const index = pipeline.names.get(place.part);
    if (index === undefined) continue;
    const payload = objectOf(event.payload);
    const run = place.occurrence ?? 1;
    switch (event.eventType) {
      case 'TaskStarted':
        state = { ...state, position: index, attempt: 1, isStarted: true, runs: { ...state.runs, [place.part]: run } };
        action = undefined;
        break;
      case 'PolicyTaskEvaluated':
        action = objectOf(payload['action']);
        if (action['do'] === 'retry') {
          const after = recorded(assigned(state, objectOf(payload['set'])));
          state = { ...after, attempt: (place.attempt ?? state.attempt) + 1 };
        }
        break;
      case 'TaskDone':
      case 'TaskFailed':
        state = afterTask(pipeline, ended(state, place.part, payload), event.eventType === 'TaskDone', payload, action);
        action = undefined;
        break;
    }
  }
  return state;
}

function ended(state: PipelineState, task: string, payload: JsonObject): PipelineState {
  const result = storedValueOf(payload['result']) ?? { value: null };
  const after = recorded(assigned(state, objectOf(payload['set'])));
  const results = { ...after.results, [task]: result };
  const told = withArtifacts(after, objectOf(payload['outcome']));
  return { ...told, results, previous: result, attempt: 1, isStarted: false };
}

/** An event can name so many; a step that makes more lists them in an artifact of its own. */
const MAX_ARTIFACTS = 1000;

/** Takes in what a task's outcome says that it has stored. */
export function withArtifacts(state: PipelineState, outcome: JsonObject): PipelineState {
  const made = artifactsOf(objectOf(outcome['meta'])['artifacts']);
  if (made.length === 0) return state;
  const known = new Set(state.artifacts.map(({ uri }) => uri));
  const fresh = made.filter(({ uri }) => !known.has(uri));
  return { ...state, artifacts: [...state.artifacts, ...fresh].slice(0, MAX_ARTIFACTS) };
}

/** Where it goes on after a task, by the recorded action or, without rules, by how the task ended. */
function afterTask(
  pipeline: CompiledPipeline,
  state: PipelineState,
  isDone: boolean,
  payload: JsonObject,
  action: JsonObject | undefined,
): PipelineState {
  const kind = textOf(action?.['do']) ?? (isDone ? 'continue' : 'fail');
  if (kind === 'fail') return rowEnded(pipeline, state, recordedError(payload['error']));
  if (kind === 'break') return rowEnded(pipeline, state);
  if (kind === 'jump') {
    const to = jumpTarget(pipeline, state.position, textOf(action?.['to']));
    return { ...state, position: to ?? state.position, jumps: state.jumps + 1 };
  }
  return moved(pipeline, state);
}

export function moved(pipeline: CompiledPipeline, state: PipelineState): PipelineState {
  const position = state.position + 1;
  const isEmpty = pipeline.cursor !== undefined && state.position === 0 && rowCount(state) === 0;
  if (position < pipeline.tasks.length && !isEmpty) return { ...state, position };
  return isEmpty ? { ...state, position, end: 'done' } : rowEnded(pipeline, { ...state, position });
}

/** How many rows the claim of a cursor's frame gave; it is recorded as an assignment to the iteration. */
export const rowCount = ({ iterSet }: PipelineState): number => Number(iterSet['rows'] ?? 0);

/** The tasks have ended, for good or, in a frame that is worked on row by row, for this row. */
export function rowEnded(pipeline: CompiledPipeline, state: PipelineState, error?: PipelineError): PipelineState {
  const isRow = pipeline.cursor === 'row' && state.position > 0;
  if (!isRow) return { ...state, end: error ? { error } : 'done' };
  const rowResults = [...state.rowResults, (error ? undefined : state.previous) ?? { value: null }];
  const rowFailure = state.rowFailure ?? error;
  if ((error && !pipeline.isBestEffort) || state.row + 1 >= rowCount(state)) {
    return { ...state, rowResults, rowFailure, end: rowFailure ? { error: rowFailure } : 'done' };
  }
  const { [CLAIM_TASK]: claimed } = state.results;
  return {
    ...state,
    rowResults,
    rowFailure,
    row: state.row + 1,
    position: 1,
    jumps: 0,
    results: claimed ? { [CLAIM_TASK]: claimed } : {},
    previous: undefined,
    iterSet: { rows: state.iterSet['rows'] },
    locals: {},
    end: undefined,
  };
}

export function jumpTarget(pipeline: CompiledPipeline, position: number, to: string | undefined): number | undefined {
  // A frame is claimed once: nothing leads back to it.
  const first = pipeline.cursor === undefined ? 0 : 1;
  return to === undefined || to === 'previous' ? Math.max(first, position - 1) : pipeline.names.get(to);
}

function recordedError(value: unknown): PipelineError {
  const error = isObject(value) ? value : {};
  return {
    kind: textOf(error['category']) ?? 'unknown',
    code: textOf(error['code']) ?? 'TASK_FAILED',
    message: textOf(error['message']) ?? '',
    retryable: error['retryable'] === true,
  };
}

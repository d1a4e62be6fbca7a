import { AppError } from '../contracts/errors.ts';
import type { PlanStep } from '../contracts/plan.ts';
import type { ErrorInfo, StoredValue } from '../contracts/values.ts';
import type { CommandOf } from './commands.ts';
import { type Deciding, errorInfo, failureMode } from './deciding.ts';
import { instanceNumberOf, unitEntity } from './entity-path.ts';
import { NeedValues } from './expressions/evaluation.ts';
import { isStopping, isUncatchable } from './failures.ts';
import type { JsonObject } from './payload-reader.ts';
import { skipCarried } from './reduce-loop.ts';
import { boundaryNames } from './route-step.ts';
import type { LoopState, StepState } from './state.ts';
import { copyStep, finishedOf } from './step-state.ts';

/** How many iterations of a parallel loop are under way at once where the plan does not say. */
const DEFAULT_IN_FLIGHT = 16;

/** The list is known: the loop begins, and its first iterations are handed out. */
export function loopResolved(d: Deciding, step: StepState, command: CommandOf<'loopResolved'>): void {
  const compiled = d.stepOf(step.name);
  const { loop } = compiled.step;
  if (!loop) throw new AppError('INVALID_TRANSITION', `Step '${step.name}' has no loop.`);
  let maxInFlight = 1;
  try {
    if (loop.mode !== 'sequential') {
      const scope = d.scope({ args: step.args, lineage: step.lineage });
      const asked = d.number(compiled.maxInFlight, scope, 'loop.spec.max_in_flight');
      maxInFlight = Math.max(1, Math.trunc(asked ?? (loop.mode === 'cursor' ? 1 : DEFAULT_IN_FLIGHT)));
    }
  } catch (thrown) {
    if (thrown instanceof NeedValues) throw thrown;
    failLoop(d, step, errorInfo(thrown, 'template'));
    return;
  }
  const carried = step.carried;
  const results = carried?.results === undefined ? {} : { results: carried.results };
  d.emit('LoopStarted', {
    stepId: step.stepId,
    attempt: step.attempt,
    payload: {
      mode: loop.mode,
      iterator: loop.iterator,
      ...(command.count === undefined ? {} : { count: command.count }),
      ...(command.list === undefined ? {} : { list: command.list }),
      maxInFlight,
      ...(carried && carried.finished.length > 0 ? { finished: [...carried.finished], ...results } : {}),
    },
  });
  advanceLoop(d, step.stepId);
  if (command.count === 0) endLoop(d, step.stepId, { value: [] });
}

export function iterationSettled(d: Deciding, step: StepState, command: CommandOf<'iterationSettled'>): void {
  const { settled, set, index } = command;
  const { status, ...rest } = settled;
  // An iteration has no steps of its own to read its tasks, and the end of its event is its time.
  const { completedAt: _time, taskResults: _tasks, rowResults, ...payload } = rest as Record<string, unknown>;
  if (Array.isArray(rowResults)) payload['result'] = { value: (rowResults as StoredValue[]).map(plainValue) };
  d.emit(status === 'completed' ? 'LoopIterationDone' : 'LoopIterationFailed', {
    stepId: step.stepId,
    entity: unitEntity(step.stepId, index),
    attempt: step.attempt,
    engineAttempt: command.engineAttempt,
    payload: { index, ...payload, ...(set && Object.keys(set).length > 0 ? { set: { ...set } } : {}) },
  });
  advanceLoop(d, step.stepId);
}

const plainValue = (stored: StoredValue): unknown => ('value' in stored ? stored.value : { _ref: stored.ref.uri });

/** Whether a loop has nothing under way and nothing left to hand out. */
export function isLoopComplete(loop: LoopState): boolean {
  if (loop.open.size > 0) return false;
  return loop.mode === 'cursor' ? loop.exhausted : loop.next >= (loop.count ?? 0);
}

/** Whether a loop hands out nothing more, because what its iterations met fails it. */
export function isLoopFailing(step: PlanStep | undefined, loop: LoopState): boolean {
  if (loop.conflict !== undefined) return true;
  return loop.failed > 0 && (failureMode(step) === 'fail_fast' || isUncatchable(loop.firstError));
}

/** Hands out what there is room for. A loop that failed or met a conflict ends as soon as nothing is under way. */
export function advanceLoop(d: Deciding, stepId: string): void {
  const { draft } = d;
  const step = draft.open.get(stepId);
  const loop = draft.loops.get(stepId);
  if (step?.status !== 'RUNNING' || !loop || draft.run.status !== 'RUNNING') return;
  if (isStopping(draft.run, step.name, d.plan.plan.finalStep)) return;
  if (isLoopFailing(d.stepOf(step.name).step, loop)) {
    if (loop.open.size === 0) failLoop(d, step, problemOf(loop));
    return;
  }
  handOut(d, step, loop);
}

function handOut(d: Deciding, step: StepState, loop: LoopState): void {
  const window = loop.maxInFlight ?? 1;
  const end = loop.count ?? Number.POSITIVE_INFINITY;
  let room = window - loop.open.size;
  for (let index = loop.next; room > 0 && index < end && !loop.exhausted; room--) {
    d.emit('LoopIterationScheduled', {
      stepId: step.stepId,
      entity: unitEntity(step.stepId, index),
      attempt: step.attempt,
      payload: { index },
    });
    index = skipCarried(index + 1, loop.carried);
  }
}

function problemOf(loop: LoopState): ErrorInfo {
  if (isUncatchable(loop.firstError)) return loop.firstError as ErrorInfo;
  if (loop.conflict !== undefined) {
    const message = `Iterations wrote different values to ctx.${loop.conflict}.`;
    return { category: 'loop', code: 'CTX_CONFLICT', message, retryable: false };
  }
  const first = loop.firstError ? ` The first: ${loop.firstError.message}` : '';
  const { failed, ended, failedAt = [] } = loop;
  // In the order of their numbers: side by side, the later one may fail first.
  const which = failedAt.toSorted((a, b) => a - b).join(', ');
  const named = which === '' ? '' : ` (${which}${failed > failedAt.length ? ', ...' : ''})`;
  const message = `${failed} of ${ended} iterations failed${named}.${first}`;
  return { category: 'loop', code: 'LOOP_ITERATIONS_FAILED', message, retryable: loop.firstError?.retryable ?? false };
}

/** The step of a loop fails: with what its iterations met, or because the loop could not begin. */
function failLoop(d: Deciding, step: StepState, error: ErrorInfo): void {
  const loop = d.draft.loops.get(step.stepId);
  if (loop) {
    const count = loop.count ?? loop.ended;
    d.emit('LoopDone', { stepId: step.stepId, attempt: step.attempt, payload: { count, failed: loop.failed } });
  }
  d.emit('StepFailed', { stepId: step.stepId, attempt: step.attempt, payload: { error } });
}

/** Every iteration ended and their results are stored as one list: the step is done. */
export function endLoop(d: Deciding, stepId: string, result: StoredValue): void {
  const step = d.draft.open.get(stepId);
  const loop = d.draft.loops.get(stepId);
  if (!step || !loop) return;
  const count = loop.count ?? loop.ended;
  let set: JsonObject;
  try {
    set = stepAssignments(d, step, loop, { count, failed: loop.failed }, result);
  } catch (thrown) {
    if (thrown instanceof NeedValues) throw thrown;
    failLoop(d, step, errorInfo(thrown, 'template'));
    return;
  }
  const { attempt } = step;
  d.emit('LoopDone', { stepId, attempt, payload: { count, failed: loop.failed, result } });
  d.emit('StepCompleted', { stepId, attempt, payload: { result } });
  d.patch(stepId, 'loop', loop.set);
  d.patch(stepId, 'step', set);
}

/** The step's own `set` is evaluated before anything is recorded: if it fails, the step has not completed. */
function stepAssignments(
  d: Deciding,
  step: StepState,
  loop: LoopState,
  counted: { count: number; failed: number },
  result: StoredValue,
): JsonObject {
  const { set } = d.stepOf(step.name);
  if (set.length === 0) return {};
  const ended = copyStep(step);
  ended.status = 'SUCCESS';
  ended.result = result;
  ended.loopEnd = counted;
  const own: Record<string, unknown> = boundaryNames(ended, 'loop.done');
  if (Object.keys(loop.set).length > 0) own['ctx'] = { ...d.draft.ctx, ...loop.set };
  const self = { name: step.name, step: finishedOf(ended, instanceNumberOf(step.stepId)) };
  return d.assign(set, d.scope({ args: step.args, lineage: step.lineage, self, own }));
}

import type { ErrorInfo } from '../contracts/values.ts';
import { backoffMillis } from '../lib/backoff.ts';
import type { CompiledArc, CompiledStep } from './compile-plan.ts';
import { type Deciding, errorInfo, failureMode } from './deciding.ts';
import { occurrenceEntity } from './entity-path.ts';
import { NeedValues } from './expressions/evaluation.ts';
import { isUncatchable, mayRetryStep } from './failures.ts';
import { isObject, type JsonObject } from './payload-reader.ts';
import type { RunScope } from './run-scope.ts';
import type { StepState } from './state.ts';
import { boundaryOf, finishedOf } from './step-state.ts';
import { finishedValue } from './step-values.ts';

/** An instance ended: it runs again if its policy says so, else its arcs are evaluated. */
export function routeStep(d: Deciding, step: StepState): void {
  if (retryByPolicy(d, step)) return;
  evaluateArcs(d, step);
}

function retryByPolicy(d: Deciding, step: StepState): boolean {
  if (step.status !== 'FAILED' || !mayRetryStep(step.error)) return false;
  const { retry } = d.stepOf(step.name);
  if (!retry) return false;
  const scope = d.scope(d.selfView(step));
  try {
    const attempts = d.number(retry.attempts, scope, 'failure.retry.attempts') ?? 1;
    if (step.attempt >= attempts) return false;
    const delay = d.number(retry.delay, scope, 'failure.retry.delay');
    const maxDelay = d.number(retry.maxDelay, scope, 'failure.retry.max_delay');
    const millis = backoffMillis({ backoff: retry.backoff, delay, maxDelay }, step.attempt, d.random);
    scheduleAgain(d, step, 'retry', millis);
    return true;
  } catch (thrown) {
    if (thrown instanceof NeedValues) throw thrown;
    failRouting(d, step, errorInfo(thrown, 'template'));
    return true;
  }
}

/** The next attempt of an instance, at once or after a delay. */
export function scheduleAgain(d: Deciding, step: StepState, kind: 'retry' | 'signal', millis: number): void {
  const attempt = step.attempt + 1;
  const until = millis > 0 ? new Date(Date.parse(d.now) + millis).toISOString() : undefined;
  d.emit('StepScheduled', {
    stepId: step.stepId,
    attempt,
    payload: {
      step: step.name,
      ...(step.stepIndex === undefined ? {} : { stepIndex: step.stepIndex }),
      ...(step.tool === undefined ? {} : { tool: step.tool }),
      cause: { kind },
      ...(step.args === undefined ? {} : { args: step.args }),
      ...(until === undefined ? {} : { dueAt: until }),
      ...(step.timeoutMs === undefined ? {} : { timeoutMs: step.timeoutMs }),
    },
  });
  if (until === undefined) return;
  const waits = (d.draft.open.get(step.stepId)?.waits ?? 0) + 1;
  d.emit('StepDelayed', {
    stepId: step.stepId,
    entity: occurrenceEntity(step.stepId, 'wait', waits),
    attempt,
    payload: { until, reason: 'RETRY', ...(step.error === undefined ? {} : { error: step.error }) },
  });
}

/** A condition is recorded for people; a long one would fill the event. */
const MAX_CONDITION = 1000;

interface Evaluated {
  readonly matched: { step: string; arc: number; when?: string }[];
  readonly selected: { step: string; arc: number; args?: Record<string, unknown> }[];
  readonly set: JsonObject;
}

function evaluateArcs(d: Deciding, step: StepState): void {
  const compiled = d.stepOf(step.name);
  const isFinal = step.name === d.plan.plan.finalStep;
  if (isUncatchable(step.error)) {
    failRouting(d, step, step.error as ErrorInfo);
    return;
  }
  let evaluated: Evaluated;
  try {
    evaluated = isFinal ? NOTHING : matchArcs(d, step, compiled);
  } catch (thrown) {
    if (thrown instanceof NeedValues) throw thrown;
    failRouting(d, step, errorInfo(thrown, 'template'));
    return;
  }
  const { matched, selected, set } = evaluated;
  if (selected.length === 0) {
    const problem = deadEnd(d, step, compiled, isFinal);
    if (problem) {
      failRouting(d, step, problem);
      return;
    }
  }
  d.patch(step.stepId, 'arc', set);
  emitNext(d, step, { matched, selected });
}

const NOTHING: Evaluated = { matched: [], selected: [], set: {} };

/** No arc took the token. A failure that nothing handles fails the run; a dead end does if the plan says so. */
function deadEnd(d: Deciding, step: StepState, compiled: CompiledStep, isFinal: boolean): ErrorInfo | undefined {
  if (step.status === 'FAILED') return failureMode(compiled.step) === 'best_effort' ? undefined : step.error;
  const { next } = compiled.step;
  if (isFinal || !d.plan.plan.noNextIsError || next === undefined || next.onNoMatch !== undefined) return undefined;
  const message = `No arc of step '${step.name}' matches ${boundaryOf(step)}.`;
  return { category: 'routing', code: 'NO_NEXT', message, retryable: false };
}

function failRouting(d: Deciding, step: StepState, error: ErrorInfo): void {
  const mode = failureMode(d.plan.steps.get(step.name)?.step);
  emitNext(d, step, { matched: [], selected: [], failure: { error, mode } });
}

function emitNext(d: Deciding, step: StepState, payload: Record<string, unknown>): void {
  const mode = d.plan.steps.get(step.name)?.step.next?.mode ?? 'exclusive';
  d.emit('NextEvaluated', {
    stepId: step.stepId,
    attempt: step.attempt,
    payload: { boundary: boundaryOf(step), mode, ...payload },
  });
}

function matchArcs(d: Deciding, step: StepState, { step: planned, arcs }: CompiledStep): Evaluated {
  if (arcs.length === 0) return NOTHING;
  const boundary = boundaryOf(step);
  const view = new ArcView(d, step, boundary);
  const matched: Evaluated['matched'] = [];
  const chosen: CompiledArc[] = [];
  for (const arc of arcs) {
    if (typeof arc.when === 'boolean') {
      if (!arc.when) continue;
      matched.push({ step: arc.arc.step, arc: arc.index });
    } else {
      const isRenamed = arc.spelling !== undefined && boundary.endsWith('.done');
      if (!d.holds(arc.when, isRenamed ? view.renamed(arc.spelling as string) : view.scope)) continue;
      matched.push({ step: arc.arc.step, arc: arc.index, when: (arc.arc.when as string).slice(0, MAX_CONDITION) });
    }
    chosen.push(arc);
    if (planned.next?.mode !== 'inclusive') break;
  }
  const set: Record<string, unknown> = {};
  const selected = chosen.map((arc) => {
    if (arc.set.length > 0) Object.assign(set, d.assign(arc.set, view.scope));
    const args = arc.args?.evaluate(view.scope, d.options);
    return { step: arc.arc.step, arc: arc.index, ...(isObject(args) ? { args: { ...args } } : {}) };
  });
  return { matched, selected, set };
}

/** What arcs see. Made when the first condition or argument asks: most arcs have neither. */
class ArcView {
  readonly #d: Deciding;
  readonly #step: StepState;
  readonly #boundary: string;
  #scope: RunScope | undefined;

  constructor(d: Deciding, step: StepState, boundary: string) {
    this.#d = d;
    this.#step = step;
    this.#boundary = boundary;
  }

  get scope(): RunScope {
    this.#scope ??= this.renamed(this.#boundary);
    return this.#scope;
  }

  /** The same with another name of the boundary. */
  renamed(name: string): RunScope {
    return this.#d.scope(this.#d.selfView(this.#step, boundaryNames(this.#step, name)));
  }
}

/** `event`, `outcome` and `output` as arcs and assignments of an ended step see them. */
export function boundaryNames(step: StepState, name: string): Record<string, unknown> {
  const result = finishedValue(finishedOf(step, 1));
  const error = step.error && { ...step.error, kind: step.error.category };
  const outcome = {
    status: step.status === 'FAILED' ? 'error' : 'ok',
    result,
    data: result,
    ...(error ? { error } : {}),
  };
  const event = {
    name,
    step: step.name,
    step_id: step.stepId,
    attempt: step.attempt,
    status: step.status === 'FAILED' ? 'error' : step.status === 'SKIPPED' ? 'skipped' : 'success',
    result,
    ...(error ? { error } : {}),
    ...(step.skipReason === undefined ? {} : { reason: step.skipReason }),
    ...(step.loopEnd ?? {}),
  };
  return { event, outcome, output: outcome };
}

import type { EventType } from '../contracts/catalogue.ts';
import { AppError } from '../contracts/errors.ts';
import type { PlanStep } from '../contracts/plan.ts';
import type { ErrorInfo } from '../contracts/values.ts';
import { apply } from './apply.ts';
import type { Command, EventDraft } from './commands.ts';
import type { Assignment, CompiledPlan, CompiledStep, Condition } from './compile-plan.ts';
import { instanceNumberOf, occurrenceEntity } from './entity-path.ts';
import type { CompiledValue } from './expressions/compile-value.ts';
import type { EvalOptions } from './expressions/evaluation.ts';
import { isTruthy } from './expressions/values.ts';
import type { JsonObject } from './payload-reader.ts';
import { evalOptions, RunScope, type Viewpoint } from './run-scope.ts';
import type { RunState, StepState } from './state.ts';
import { finishedOf } from './step-state.ts';
import { copyState, type Draft, type Work } from './work.ts';

/** What a decided event says beside its type. */
export interface Saying {
  readonly stepId?: string;
  readonly entity?: string;
  readonly attempt?: number;
  readonly engineAttempt?: number | undefined;
  readonly payload?: Record<string, unknown>;
}

/**
 * One decision under way: a private draft of the state, to which every decided event is applied at once, so that what
 * is decided next sees it. The draft is thrown away; the state changes when the stored events are folded.
 */
export class Deciding {
  readonly plan: CompiledPlan;
  readonly draft: Draft;
  readonly now: string;
  readonly random: number;
  readonly events: EventDraft[] = [];
  #options: EvalOptions | undefined;
  readonly #values: Command['values'];
  readonly #work: Work;

  constructor(plan: CompiledPlan, state: RunState, command: Command) {
    this.plan = plan;
    this.draft = copyState(state);
    this.now = command.now;
    this.random = command.random ?? 0.5;
    this.#values = command.values;
    // Without an owner: a decision changes each map once or twice, and single changes are the cheapest to take back.
    this.#work = { draft: this.draft, owner: undefined, violations: undefined };
  }

  emit(eventType: EventType, { stepId, entity, attempt = 1, engineAttempt, payload }: Saying = {}): void {
    const event: { -readonly [K in keyof EventDraft]: EventDraft[K] } = { eventType, logicalAttemptId: attempt };
    if (stepId !== undefined) event.stepId = stepId;
    if (entity !== undefined) event.entity = entity;
    if (engineAttempt !== undefined) event.engineAttemptId = engineAttempt;
    if (payload !== undefined) event.payload = payload;
    this.events.push(event);
    const emittedAt = this.now;
    apply(this.#work, {
      eventType,
      stepId,
      entity,
      logicalAttemptId: attempt,
      engineAttemptId: engineAttempt,
      emittedAt,
      payload,
    });
  }

  /** A patch of ctx, as the next occurrence below a step. */
  patch(stepId: string, source: 'task' | 'step' | 'arc' | 'loop' | 'carried', set: JsonObject): void {
    if (Object.keys(set).length === 0) return;
    const step = this.draft.open.get(stepId);
    this.emit('CtxPatched', {
      stepId,
      entity: occurrenceEntity(stepId, 'ctx', (step?.patches ?? 0) + 1),
      ...(step === undefined ? {} : { attempt: step.attempt }),
      payload: { set, source },
    });
  }

  get options(): EvalOptions {
    this.#options ??= evalOptions(this.#values);
    return this.#options;
  }

  scope(view: Viewpoint): RunScope {
    return new RunScope(this.plan.plan, this.draft, this.#values, view);
  }

  holds(condition: Condition, scope: RunScope): boolean {
    if (typeof condition === 'boolean') return condition;
    return isTrue(condition.evaluate(scope, this.options), condition.isLone);
  }

  number(value: CompiledValue | undefined, scope: RunScope, what: string): number | undefined {
    if (value === undefined) return undefined;
    return numberOf(value.evaluate(scope, this.options), what);
  }

  /** Evaluates assignments to ctx; other targets have no meaning outside of a pipeline. */
  assign(assignments: readonly Assignment[], scope: RunScope): JsonObject {
    const set: Record<string, unknown> = {};
    for (const { target, value } of assignments) {
      if (!target.startsWith('ctx.')) continue;
      const result = value.evaluate(scope, this.options);
      Object.defineProperty(set, target.slice('ctx.'.length), {
        value: result === undefined ? null : result,
        enumerable: true,
        configurable: true,
        writable: true,
      });
    }
    return set;
  }

  stepOf(name: string): CompiledStep {
    const step = this.plan.steps.get(name);
    if (!step) throw new AppError('PLAN_INTEGRITY_VALIDATION_FAILED', `The plan has no step '${name}'.`);
    return step;
  }

  /** How the ended instance looks from its own arcs and assignments. */
  selfView(step: StepState, own?: Record<string, unknown>): Viewpoint {
    const self = { name: step.name, step: finishedOf(step, instanceNumberOf(step.stepId)) };
    return { args: step.args, lineage: step.lineage, self, own };
  }
}

/** A template with text around it gives text: there, the words for no are no. */
export function isTrue(value: unknown, isLone: boolean): boolean {
  if (isLone || typeof value !== 'string') return isTruthy(value);
  return !['', 'false', 'none', 'null', '0'].includes(value.trim().toLowerCase());
}

export function numberOf(value: unknown, what: string): number {
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  if (typeof number === 'number' && Number.isFinite(number)) return number;
  throw new AppError('TEMPLATE_TYPE', `${what} gave ${JSON.stringify(value) ?? 'nothing'}, which is not a number.`);
}

/** What goes into an event when a template or a limit fails a decision. Anything else is a defect and is thrown on. */
export function errorInfo(thrown: unknown, category: string): ErrorInfo {
  if (!(thrown instanceof AppError)) throw thrown;
  return { category, code: thrown.code, message: thrown.message, retryable: thrown.retryable };
}

export const failureMode = (step: PlanStep | undefined): 'fail_fast' | 'best_effort' =>
  step?.failure?.mode ?? 'fail_fast';

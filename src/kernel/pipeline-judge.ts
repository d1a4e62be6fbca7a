import type { ErrorInfo, Outcome } from '../contracts/values.ts';
import { isTrue, numberOf } from './deciding.ts';
import { isUncatchable } from './failures.ts';
import type { JsonObject } from './payload-reader.ts';
import type { CompiledRule, CompiledTask } from './pipeline-plan.ts';
import type { PipelineScopes, TaskOutcome } from './pipeline-scope.ts';
import type { PipelineState } from './pipeline-state.ts';
import type { RunScope } from './run-scope.ts';

/** How often one pipeline may jump where the plan does not say. */
const MAX_JUMPS = 1000;
/** Tries of a retry rule that does not say how many. */
const DEFAULT_ATTEMPTS = 3;

export interface Action {
  readonly do: 'continue' | 'retry' | 'jump' | 'break' | 'fail';
  readonly attempts?: number;
  readonly backoff?: 'none' | 'fixed' | 'linear' | 'exponential';
  readonly delay?: number;
  readonly to?: string;
}

/** What a task's policy says about an outcome. `error` is there when the task fails. */
export interface Judgement {
  readonly index: number | null;
  readonly action: Action;
  readonly set: JsonObject;
  readonly error?: ErrorInfo;
}

const CONTINUE: Judgement = { index: null, action: { do: 'continue' }, set: {} };
const failing = (index: number | null, error: ErrorInfo, set: JsonObject = {}): Judgement => ({
  index,
  action: { do: 'fail' },
  set,
  error,
});

/** First match wins, then `else`. Nothing catches a denial, a rejection or a cancellation. */
export function judge(
  scopes: PipelineScopes,
  compiled: CompiledTask,
  state: PipelineState,
  outcome: TaskOutcome,
): Judgement {
  const isOk = outcome.status === 'ok';
  const error = isOk ? undefined : errorOfOutcome(outcome);
  if (error && (isUncatchable(error) || error.code === 'CANCELLED')) return failing(null, error);
  const { rules, task } = compiled;
  if (rules.length === 0) return error ? failing(null, error) : CONTINUE;
  const scope = scopes.scope(state, task, outcome);
  for (const [index, rule] of rules.entries()) {
    const { when } = rule;
    const matches = typeof when === 'boolean' ? when : isTrue(when.evaluate(scope, scopes.options), when.isLone);
    if (matches) return actOn(scopes, rule, index, state, scope, error);
  }
  if (task.policy?.onUnmatched !== 'fail') return CONTINUE;
  return failing(null, error ?? failed('No rule of its policy matched.'));
}

function actOn(
  scopes: PipelineScopes,
  rule: CompiledRule,
  index: number,
  state: PipelineState,
  scope: RunScope,
  error: ErrorInfo | undefined,
): Judgement {
  const { action } = rule;
  const set = scopes.evaluate(rule.set, scope);
  switch (action.do) {
    case 'retry':
      return retry(scopes, rule, index, state, scope, error, set);
    case 'fail':
      return failing(index, error ?? failed('A rule of its policy failed it.'), set);
    case 'jump': {
      const max = scopes.context.plan.limits?.maxJumps ?? MAX_JUMPS;
      if (state.jumps < max) return { index, set, action: { do: 'jump', to: action.to ?? 'previous' } };
      const message = `The pipeline jumped ${max} times.`;
      return failing(index, { category: 'limit', code: 'JUMP_LIMIT', message, retryable: false }, set);
    }
    default:
      return { index, set, action: { do: action.do } };
  }
}

function retry(
  scopes: PipelineScopes,
  rule: CompiledRule,
  index: number,
  state: PipelineState,
  scope: RunScope,
  error: ErrorInfo | undefined,
  set: JsonObject,
): Judgement {
  const { backoff } = rule.action;
  const given = rule.attempts && numberOf(rule.attempts.evaluate(scope, scopes.options), 'attempts');
  const attempts = Math.max(1, Math.trunc(given ?? DEFAULT_ATTEMPTS));
  if (state.attempt >= attempts) {
    return failing(index, error ?? failed(`Still not settled after ${state.attempt} tries.`), set);
  }
  const delay = rule.delay && Math.max(0, numberOf(rule.delay.evaluate(scope, scopes.options), 'delay'));
  return {
    index,
    set,
    action: {
      do: 'retry',
      attempts,
      ...(backoff === undefined ? {} : { backoff }),
      ...(delay === undefined ? {} : { delay }),
    },
  };
}

const failed = (message: string): ErrorInfo => ({ category: 'task', code: 'TASK_FAILED', message, retryable: false });

export function errorOfOutcome(outcome: Outcome): ErrorInfo {
  const { error } = outcome;
  return {
    category: error?.kind ?? 'task',
    code: error?.code ?? 'TASK_FAILED',
    message: error?.message ?? 'The task failed.',
    retryable: error?.retryable ?? false,
  };
}

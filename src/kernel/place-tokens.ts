import type { ErrorInfo } from '../contracts/values.ts';
import { type Deciding, errorInfo } from './deciding.ts';
import { instanceId, stepNameOf } from './entity-path.ts';
import { NeedValues } from './expressions/evaluation.ts';
import { mergeLineages } from './lineage.ts';
import type { JsonObject } from './payload-reader.ts';
import type { RunScope } from './run-scope.ts';
import type { Cause, Token } from './state.ts';

/** How many instances a run may have where its plan does not say. */
const MAX_STEPS = 100_000;
/** Steps that are refused admission run nowhere: a cycle of them would otherwise never end within one decision. */
const MAX_PLACED_AT_ONCE = 10_000;

/** Gives the tokens that stand before a step to a new instance of it, or several to several. */
export function placeTokens(d: Deciding, name: string, tokens: readonly Token[], dueAt?: string): void {
  const only = tokens[0];
  if (only && tokens.length === 1) {
    const arrivals = [{ from: only.from, arc: only.arc }];
    placeInstance(d, name, { kind: 'arc', arrivals }, tokens, only.args, dueAt);
    return;
  }
  const sorted = [...tokens].sort(
    (a, b) => planOrder(d, a) - planOrder(d, b) || a.arc - b.arc || order(a.from, b.from),
  );
  const cause: Cause = { kind: 'arc', arrivals: sorted.map(({ from, arc }) => ({ from, arc })) };
  const args: Record<string, unknown> = {};
  for (const token of sorted) Object.assign(args, token.args);
  placeInstance(d, name, cause, sorted, sorted.some((token) => token.args) ? args : undefined, dueAt);
}

const planOrder = (d: Deciding, token: Token): number =>
  d.plan.steps.get(stepNameOf(token.from))?.step.index ?? Number.MAX_SAFE_INTEGER;
/** Of two instances of one step the lower number comes first. */
const order = (a: string, b: string): number =>
  a.length === b.length ? (a < b ? -1 : a > b ? 1 : 0) : a.length - b.length;

/** A new instance of a step: admitted and scheduled, or refused and skipped. */
export function placeInstance(
  d: Deciding,
  name: string,
  cause: Cause,
  tokens: readonly Token[],
  args: JsonObject | undefined,
  dueAt?: string,
): void {
  const compiled = d.stepOf(name);
  const { step } = compiled;
  const stepId = instanceId(name, (d.draft.names.get(name)?.instances ?? 0) + 1);
  const origin = { step: name, stepIndex: step.index, cause, ...(args === undefined ? {} : { args: { ...args } }) };
  const limit = stepLimit(d);
  if (limit) {
    refuseAdmission(d, stepId, limit);
    return;
  }
  // Most steps have neither rules nor templates to be evaluated here, and need no scope.
  const needsScope = compiled.admit.length > 0 || (compiled.timeoutS !== undefined && !compiled.timeoutS.isStatic);
  const scope = needsScope ? arrivalScope(d, tokens, args) : undefined;
  let timeoutMs: number | undefined;
  try {
    const verdict = admit(d, name, scope);
    if (verdict) {
      const { allow, index, reason } = verdict;
      const text = reason === undefined ? {} : { reason };
      d.emit('PolicyAdmitEvaluated', { stepId, payload: { allow, matchedRuleIndex: index, ...text } });
      if (!allow) {
        const why = reason ?? `Rule ${index} of the admission policy refused it.`;
        d.emit('StepSkipped', { stepId, payload: { reason: why, ruleIndex: index ?? -1, ...origin } });
        return;
      }
    }
    const seconds = compiled.timeoutS && d.number(compiled.timeoutS, scope ?? d.scope({}), 'lifecycle.timeout_s');
    if (seconds !== undefined) timeoutMs = Math.max(0, Math.round(seconds * 1000));
  } catch (thrown) {
    if (thrown instanceof NeedValues) throw thrown;
    refuseAdmission(d, stepId, errorInfo(thrown, 'template'));
    return;
  }
  const tool = step.tasks[0]?.kind;
  d.emit('StepScheduled', {
    stepId,
    payload: {
      ...origin,
      ...(tool === undefined ? {} : { tool }),
      ...(dueAt === undefined ? {} : { dueAt }),
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
    },
  });
}

function arrivalScope(d: Deciding, tokens: readonly Token[], args: JsonObject | undefined): RunScope {
  const first = tokens[0];
  const event = first ? { name: first.boundary, step: stepNameOf(first.from) } : { name: 'playbook.started' };
  return d.scope({ args, lineage: mergeLineages(tokens), own: { event } });
}

/** First match wins; without a match the step is admitted. Undefined: the step has no rules. */
function admit(
  d: Deciding,
  name: string,
  scope: RunScope | undefined,
): { allow: boolean; index: number | null; reason: string | undefined } | undefined {
  const rules = d.stepOf(name).admit;
  if (rules.length === 0 || !scope) return undefined;
  for (const [index, rule] of rules.entries()) {
    if (d.holds(rule.when, scope)) return { allow: rule.allow, index, reason: rule.reason };
  }
  return { allow: true, index: null, reason: undefined };
}

function stepLimit(d: Deciding): ErrorInfo | undefined {
  const max = d.plan.plan.limits?.maxSteps ?? MAX_STEPS;
  if (d.draft.ordinal < max && d.events.length < MAX_PLACED_AT_ONCE * 4) return undefined;
  const message =
    d.draft.ordinal < max
      ? `One decision would place more than ${MAX_PLACED_AT_ONCE} steps.`
      : `The run would have more than ${max} steps.`;
  return { category: 'limit', code: 'STEP_LIMIT', message, retryable: false };
}

/** The rules themselves failed: nobody can say whether the step may run, so the run fails. The token stays. */
function refuseAdmission(d: Deciding, stepId: string, failure: ErrorInfo): void {
  d.emit('PolicyAdmitEvaluated', {
    stepId,
    payload: { allow: false, matchedRuleIndex: null, reason: failure.message, failure },
  });
}

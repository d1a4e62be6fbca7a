import { instanceNumberOf } from './entity-path.ts';
import { lineageAfter } from './lineage.ts';
import { countOf, isObject, type JsonObject, objectOf } from './payload-reader.ts';
import { type Cause, includesName, type NameState, type StepState, type Token } from './state.ts';
import { copyStep, finishedOf } from './step-state.ts';
import type { Work } from './work.ts';

/** An arc that was selected, as the event names it. */
export interface Selected {
  readonly step: string;
  readonly arc: number;
  readonly args: JsonObject | undefined;
}

const NONE: readonly Selected[] = Object.freeze([]);
const NO_TOKENS: readonly Token[] = Object.freeze([]);

export function selectedOf(value: unknown): readonly Selected[] {
  if (!Array.isArray(value) || value.length === 0) return NONE;
  const selected: Selected[] = [];
  for (const item of value) {
    const { step, arc, args } = objectOf(item);
    if (typeof step === 'string')
      selected.push({ step, arc: countOf(arc) ?? 0, args: isObject(args) ? args : undefined });
  }
  return selected;
}

/** The instance's token goes on: tokens are put on their way, and the instance is kept or dropped. */
export function leave(
  work: Work,
  step: StepState,
  seen: number,
  selected: readonly Selected[],
  boundary?: string,
): void {
  const { draft, owner } = work;
  const { name, stepId } = step;
  if (selected.length > 0) {
    const { lineage: names } = draft.retention;
    const self = includesName(names, name) ? finishedOf(step, instanceNumberOf(stepId)) : undefined;
    const lineage = lineageAfter(names, step.lineage, self);
    for (const { step: to, arc, args } of selected) {
      const token: Token = { to, from: stepId, arc, boundary, args, lineage };
      const waiting = draft.tokens.get(to);
      draft.tokens = draft.tokens.set(to, waiting ? [...waiting, token] : [token], owner);
    }
  }
  draft.unrouted = draft.unrouted.delete(stepId, owner);
  draft.open = draft.open.delete(stepId, owner);
  if (draft.loops.size > 0) draft.loops = draft.loops.delete(stepId, owner);
  const known = draft.names.get(name) as NameState;
  draft.names = draft.names.set(
    name,
    { instances: known.instances, live: known.live - 1, finished: known.finished },
    owner,
  );
  if (draft.retention.keepFinished) {
    const kept = copyStep(step);
    kept.lineage = undefined;
    kept.seen |= seen;
    draft.done = draft.done.set(stepId, kept, owner);
  }
}

/** Takes the tokens that a cause names off their way, in the order in which the cause names them. */
export function takeTokens(work: Work, to: string, cause: Cause & { readonly kind: 'arc' }): readonly Token[] {
  const { draft, owner } = work;
  const waiting = draft.tokens.get(to);
  if (!waiting) return NO_TOKENS;
  const first = cause.arrivals[0];
  if (waiting.length === 1 && cause.arrivals.length === 1 && first) {
    const token = waiting[0] as Token;
    if (token.from !== first.from || token.arc !== first.arc) return NO_TOKENS;
    draft.tokens = draft.tokens.delete(to, owner);
    return waiting;
  }
  const byArrival = new Map(waiting.map((token) => [`${token.arc}>${token.from}`, token]));
  const taken: Token[] = [];
  for (const { from, arc } of cause.arrivals) {
    const token = byArrival.get(`${arc}>${from}`);
    if (token && byArrival.delete(`${arc}>${from}`)) taken.push(token);
  }
  const left = waiting.filter((token) => byArrival.has(`${token.arc}>${token.from}`));
  draft.tokens = left.length > 0 ? draft.tokens.set(to, left, owner) : draft.tokens.delete(to, owner);
  return taken;
}

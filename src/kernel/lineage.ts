import { stepNameOf } from './entity-path.ts';
import { type Finished, includesName, type Lineage, type Names, type Token } from './state.ts';

/**
 * The ancestry that a token carries: for each name that can have several instances, the nearest one by cause.
 * It is kept on the token, because the instances themselves are dropped once their token went on.
 */
export function lineageAfter(
  names: Names,
  before: Lineage | undefined,
  step: Finished | undefined,
): Lineage | undefined {
  if (names === 'none') return undefined;
  const depth = (before?.depth ?? 0) + 1;
  const nearest = before?.nearest ?? {};
  if (!step) return { depth, nearest };
  const name = stepNameOf(step.stepId);
  if (!includesName(names, name)) return { depth, nearest };
  return { depth, nearest: { ...nearest, [name]: { at: depth, step } } };
}

/** Where branches meet the nearer ancestor wins, whatever ran faster; ties go to the first arrival in plan order. */
export function mergeLineages(tokens: readonly Token[]): Lineage | undefined {
  const first = tokens[0]?.lineage;
  if (tokens.length < 2) return first;
  const lineages = tokens.flatMap((token) => (token.lineage ? [token.lineage] : []));
  if (lineages.length === 0) return undefined;
  const depth = Math.max(...lineages.map((lineage) => lineage.depth));
  const nearest: Record<string, { at: number; step: Finished }> = Object.create(null);
  for (const lineage of lineages) {
    for (const [name, { at, step }] of Object.entries(lineage.nearest)) {
      const shifted = at + depth - lineage.depth;
      const known = nearest[name];
      if (!known || shifted > known.at) nearest[name] = { at: shifted, step };
    }
  }
  return { depth, nearest: { ...nearest } };
}

import type { Join } from './compile-plan.ts';
import type { Deciding } from './deciding.ts';
import { placeTokens } from './place-tokens.ts';

/**
 * Fires one join that waits for nobody any more, if there is one. A join waits while a token stands at another step
 * from which it can be reached. Tokens that other joins hold count too; joins that wait only for each other would wait
 * for ever, so of those the first in plan order fires.
 */
export function fireJoin(d: Deciding): boolean {
  const { draft, plan } = d;
  const holding = plan.joins.filter((join) => draft.tokens.has(join.name));
  if (holding.length === 0) return false;
  const settled = holding.filter((join) => !isAnyLive(d, join));
  const waitsFor = (join: Join) => settled.filter((other) => join.sources.has(other.name));
  const ready =
    settled.find((join) => waitsFor(join).length === 0) ?? settled.find((join) => isMutual(join, waitsFor(join)));
  if (!ready) return false;
  placeTokens(d, ready.name, draft.tokens.get(ready.name) ?? []);
  return true;
}

function isAnyLive(d: Deciding, join: Join): boolean {
  const isLive = (name: string) => (d.draft.names.get(name)?.live ?? 0) > 0;
  if (join.hint !== '' && isLive(join.hint)) return true;
  for (const name of join.sources) {
    if (!isLive(name)) continue;
    join.hint = name;
    return true;
  }
  return false;
}

/** Every join that it waits for waits for it as well. */
function isMutual(join: Join, others: readonly Join[]): boolean {
  return others.every((other) => other.sources.has(join.name));
}

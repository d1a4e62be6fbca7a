import type { CompiledPlan, Loaded, PlanPosition } from './compile.ts';
import type { Child } from './link-children.ts';

/** The scheme of plans that are kept by their content. */
const PLAN_URI_PREFIX = 'runledger-plan:sha256/';

/** What callers get: the plan with its reference and its side file. */
export function finishPlan(child: Child, entry: Loaded): CompiledPlan {
  const { plan, json, sha256 } = child;
  const { planId, planVersion } = plan.metadata;
  const positions: Record<string, PlanPosition> = {};
  for (const [pointer, { line, column }] of entry.draft!.positions) {
    positions[pointer] = { file: entry.source.file, line, column };
  }
  return {
    plan,
    json,
    sha256,
    planRef: {
      uri: PLAN_URI_PREFIX + sha256,
      sha256,
      schemaVersion: plan.schemaVersion,
      planId,
      planVersion,
      sizeBytes: Buffer.byteLength(json),
    },
    positions,
    warnings: entry.problems.list(),
  };
}

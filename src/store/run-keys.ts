import { canonicalJson } from '../lib/canonical-json.ts';
import { sha256Hex } from '../lib/hash.ts';
import type { NewRun } from './store.ts';

type Scope = Pick<NewRun, 'tenantId' | 'projectId' | 'environmentId' | 'planId' | 'planVersion'>;

/** The key of a start request, as the contract gives it: the same request twice is one run. */
export function requestKey(run: Scope, runRequestId: string): string {
  return sha256Hex(
    [run.tenantId, run.projectId, run.environmentId, run.planId, run.planVersion, runRequestId].join('|'),
  );
}

/** The key of what set a run off; the plan's version is no part of it. */
export function triggerKey(run: NewRun): string | null {
  if (!run.trigger) return null;
  const { type, ref, playbookPath } = run.trigger;
  return sha256Hex(
    canonicalJson([run.tenantId, run.projectId, run.environmentId, playbookPath ?? run.planId, type, ref]),
  );
}

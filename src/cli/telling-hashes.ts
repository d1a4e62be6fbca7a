import type { PlanRef } from '../contracts/values.ts';
import type { PostgresStore } from '../store/postgres-store.ts';
import type { RunRow } from '../store/sql/find-run.ts';

/** Beyond this nobody reads the page line by line, and looking every run up takes long. */
const MOST_LOOKED_UP = 100;
const HASH_LENGTH = 12;

/** The hashes of plans, for runs that would look as if they had run the same plan and did not: who changes a playbook may leave its version as it was. */
export async function tellingHashes(store: PostgresStore, page: readonly RunRow[]): Promise<Map<string, string>> {
  const groups = new Map<string, RunRow[]>();
  for (const run of page) {
    const name = `${run.planId}\n${run.planVersion}`;
    groups.set(name, [...(groups.get(name) ?? []), run]);
  }
  const telling = new Map<string, string>();
  if (page.length > MOST_LOOKED_UP) return telling;
  for (const runs of groups.values()) {
    if (runs.length === 1) continue;
    const hashes = await Promise.all(runs.map(({ runId }) => planHash(store, runId)));
    if (new Set(hashes.filter((hash) => hash !== undefined)).size < 2) continue;
    for (const [i, { runId }] of runs.entries()) {
      const hash = hashes[i];
      if (hash !== undefined) telling.set(runId, hash.slice(0, HASH_LENGTH));
    }
  }
  return telling;
}

/** A run begins with the reference of its plan; one that was written by hand may have none. */
async function planHash(store: PostgresStore, runId: string): Promise<string | undefined> {
  const [first] = await store.readEvents(runId, { limit: 1 });
  return (first?.payload?.['planRef'] as PlanRef | undefined)?.sha256;
}

import type { PostgresStore } from '../store/postgres-store.ts';
import type { WorkRow } from '../store/work.ts';
import { parseUnit } from '../store/work-unit.ts';
import type { RunTree, StepLine } from './run-tree.ts';
import { hasEnded } from './watch-run.ts';

/**
 * Steps that the log calls running and that nobody works on: their worker was killed, or has handed them back. The log cannot know;
 * the leases do. With the steps of the runs that the run waits for.
 */
export async function idleSteps(store: PostgresStore, tree: RunTree): Promise<StepLine[]> {
  if (hasEnded(tree)) return [];
  const { deadOwners } = await import('../engines/units/worker-name.ts');
  const rows = await store.work.list(tree.runId);
  const dead = deadOwners([...new Set(rows.flatMap(({ leaseOwner }) => leaseOwner ?? []))]);
  const isBusy = ({ leaseOwner, leaseExpiresAt, nextEligibleAt }: WorkRow): boolean => {
    // What waits for its time is as it should be.
    if (leaseOwner === undefined) return Date.parse(nextEligibleAt ?? '') > Date.now();
    return !dead.includes(leaseOwner) && Date.parse(leaseExpiresAt ?? '') > Date.now();
  };
  const idle: StepLine[] = [];
  for (const step of tree.steps.values()) {
    const own = rows.filter(({ unit }) => stepOf(unit) === step.stepId);
    // A wait has no worker by nature.
    const isCared = own.some((row) => row.unit.startsWith('w:') || isBusy(row));
    const isOpen = step.mark === 'running' && step.children.every(hasEnded);
    if (isOpen && !isCared && ![...tree.writes.open.values()].some((write) => isPartOf(write.step, step.stepId)))
      idle.push(step);
  }
  // Whoever was at work in the meantime has left a trace in the log.
  if (idle.length > 0 && (await store.findRun(tree.runId))?.lastSeq !== tree.lastSeq) return [];
  for (const { children } of tree.steps.values())
    for (const child of children) idle.push(...(await idleSteps(store, child)));
  return idle;
}

/** Whether there is work that anybody could take, and nobody has taken any: a run that was started for workers of which none is there. */
export async function isUnclaimed(store: PostgresStore, tree: RunTree): Promise<boolean> {
  if (tree.status !== 'RUNNING' && tree.status !== 'PENDING') return false;
  const rows = await store.work.list(tree.runId);
  const isFree = ({ unit, leaseOwner, nextEligibleAt }: WorkRow): boolean =>
    !unit.startsWith('w:') && leaseOwner === undefined && !(Date.parse(nextEligibleAt ?? '') > Date.now());
  return rows.length > 0 && rows.every(isFree);
}

function stepOf(key: string): string | undefined {
  const unit = parseUnit(key);
  if (unit === undefined) return undefined;
  if ('stepId' in unit) return unit.stepId;
  return unit.kind === 'wait' ? unit.entity.split('/')[0] : undefined;
}

const isPartOf = (entity: string, stepId: string): boolean => entity === stepId || entity.startsWith(`${stepId}/`);

import { fold } from '../kernel/evolve.ts';
import { initialState } from '../kernel/state.ts';
import { type StepWord, stepSituation, stepWord } from '../kernel/status-words.ts';
import { allSteps } from '../kernel/to-snapshot.ts';
import type { Store } from '../store/store.ts';
import type { WorkRow, WorkStore } from '../store/work.ts';
import { parseUnit } from '../store/work-unit.ts';

/** A step as a queue shows it: what the log says of it, and who holds it now. */
export interface StepRow {
  readonly step_id: string;
  readonly step_index?: number;
  readonly tool_name?: string;
  readonly status: StepWord;
  readonly attempt: number;
  readonly lease_owner?: string;
  readonly lease_expires_at?: string;
  readonly next_eligible_at?: string;
  readonly last_error?: string;
}

const PAGE = 5000;

/** Every step instance of a run in the order in which the log named them. */
export async function listSteps(store: Store, work: WorkStore, runId: string): Promise<StepRow[]> {
  // The rows first: a step that ends in between is shown as ended, and never as held by nobody.
  const rows = await work.list(runId);
  let state = initialState(runId, { keepFinished: true });
  for (;;) {
    const page = await store.readEvents(runId, { afterSeq: state.lastEventSeq, limit: PAGE });
    state = fold(state, page);
    if (page.length < PAGE) break;
  }
  return allSteps(state).map((step) => {
    const hasEnded = step.status !== 'PENDING' && step.status !== 'RUNNING';
    const own = hasEnded ? [] : rows.filter(({ unit }) => belongsTo(unit, step.stepId));
    const row = own.find(({ leaseOwner }) => leaseOwner !== undefined) ?? own[0];
    const word = stepWord(stepSituation(state, step));
    const error = row?.lastError ?? step.error?.message ?? step.delayed?.error?.message;
    return {
      step_id: step.stepId,
      ...(step.stepIndex === undefined ? {} : { step_index: step.stepIndex }),
      ...(step.tool === undefined ? {} : { tool_name: step.tool }),
      // Its start is written with the first facts; whoever holds it is at it.
      status: word === 'ready' && row?.leaseOwner !== undefined ? 'running' : word,
      attempt: step.attempt,
      ...heldBy(row),
      ...(error === undefined ? {} : { last_error: error }),
    };
  });
}

/** The row of the step itself, of one of its iterations, or of something that it waits for. */
function belongsTo(unit: string, stepId: string): boolean {
  const key = parseUnit(unit);
  if (!key) return false;
  if (key.kind === 'wait') return key.entity === stepId || key.entity.startsWith(`${stepId}/`);
  return 'stepId' in key && key.stepId === stepId;
}

function heldBy(row: WorkRow | undefined): Partial<StepRow> {
  if (!row) return {};
  const { leaseOwner, leaseExpiresAt, nextEligibleAt } = row;
  if (leaseOwner !== undefined && leaseExpiresAt !== undefined)
    return { lease_owner: leaseOwner, lease_expires_at: leaseExpiresAt };
  return nextEligibleAt === undefined ? {} : { next_eligible_at: nextEligibleAt };
}

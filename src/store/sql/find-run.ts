import type { RunStatus } from '../../contracts/states.ts';
import type { EngineName } from '../../contracts/values.ts';
import { microsToText } from '../../lib/time.ts';
import { statusOfBit } from '../prepared-event.ts';
import type { Postgres } from './postgres.ts';
import type { RunIdentity } from './read-events.ts';

/** A run as the store knows it without folding its log. */
export interface RunRow extends RunIdentity {
  readonly createdAt: string;
  /** The status that the last accepted event gave; absent before the first one. */
  readonly status?: RunStatus;
  readonly lastSeq: number;
  readonly decidedSeq: number;
  readonly chainHead: string;
  readonly triggerType?: string;
  readonly triggerRef?: string;
  readonly parentRunId?: string;
  readonly retryOf?: string;
  /** Who schedules the run. */
  readonly engine: EngineName;
}

export interface RunColumns {
  readonly run_key: string;
  readonly run_id: string;
  readonly tenant_id: string;
  readonly project_id: string;
  readonly environment_id: string;
  readonly plan_id: string;
  readonly plan_version: string;
  readonly created: string;
  readonly status: number;
  readonly last_seq: string;
  readonly decided_seq: string;
  readonly head: string;
  readonly trigger_type: string | null;
  readonly trigger_ref: string | null;
  readonly parent_run_id: string | null;
  readonly retry_of: string | null;
  readonly engine: EngineName;
}

export const RUN_COLUMNS = `r.run_key, r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version,
  (extract(epoch from r.created_at) * 1000000)::bigint::text as created, r.status, r.last_seq, r.decided_seq,
  encode(r.chain_head, 'hex') as head, r.trigger_type, r.trigger_ref, r.parent_run_id, r.retry_of, r.engine`;

export function toRun(row: RunColumns): RunRow {
  const status = statusOfBit(row.status);
  return {
    runKey: Number(row.run_key),
    runId: row.run_id,
    tenantId: row.tenant_id,
    projectId: row.project_id,
    environmentId: row.environment_id,
    planId: row.plan_id,
    planVersion: row.plan_version,
    createdAt: microsToText(Number(row.created)),
    ...(status === null ? {} : { status }),
    lastSeq: Number(row.last_seq),
    decidedSeq: Number(row.decided_seq),
    chainHead: row.head,
    ...(row.trigger_type === null ? {} : { triggerType: row.trigger_type }),
    ...(row.trigger_ref === null ? {} : { triggerRef: row.trigger_ref }),
    ...(row.parent_run_id === null ? {} : { parentRunId: row.parent_run_id }),
    ...(row.retry_of === null ? {} : { retryOf: row.retry_of }),
    engine: row.engine,
  };
}

export async function findRuns(postgres: Postgres, runIds: readonly string[]): Promise<RunRow[]> {
  const text = `select ${RUN_COLUMNS} from runledger.runs r where r.run_id = any($1::text[])`;
  return (await postgres.query<RunColumns>({ name: 'find_runs', text }, [runIds])).map(toRun);
}

/** An engine's own name for a run. Every id of a chain of continued executions leads to the run. */
export interface ProviderRef {
  readonly provider: string;
  readonly workflowId: string;
  readonly providerRunId: string;
}

export async function findRunByProvider(postgres: Postgres, ref: ProviderRef): Promise<RunRow | undefined> {
  const text = `select ${RUN_COLUMNS} from runledger.run_refs p join runledger.runs r using (run_key)
    where p.provider = $1 and p.workflow_id = $2 and p.provider_run_id = $3`;
  const rows = await postgres.query<RunColumns>({ name: 'find_run_by_provider', text }, [
    ref.provider,
    ref.workflowId,
    ref.providerRunId,
  ]);
  return rows[0] && toRun(rows[0]);
}

/** Records a provider's id for a run; false when the id belongs to another run already. */
export async function linkProvider(postgres: Postgres, runKey: number, ref: ProviderRef): Promise<boolean> {
  const text = `with added as (
      insert into runledger.run_refs (provider, workflow_id, provider_run_id, run_key) values ($1, $2, $3, $4)
      on conflict do nothing returning run_key)
    select run_key::text from added
    union all
    select run_key::text from runledger.run_refs where provider = $1 and workflow_id = $2 and provider_run_id = $3`;
  const rows = await postgres.query<{ run_key: string }>({ name: 'link_provider', text }, [
    ref.provider,
    ref.workflowId,
    ref.providerRunId,
    runKey,
  ]);
  return rows.every((row) => Number(row.run_key) === runKey);
}

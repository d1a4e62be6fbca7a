import type { RunStatus } from '../../contracts/states.ts';
import { NO_STATUS, statusBit } from '../prepared-event.ts';
import { RUN_COLUMNS, type RunColumns, type RunRow, toRun } from './find-run.ts';
import type { Postgres } from './postgres.ts';

export interface RunQuery {
  readonly tenantId?: string | undefined;
  readonly statuses?: readonly RunStatus[] | undefined;
  readonly planId?: string | undefined;
  /** Only runs that this run started. */
  readonly parentRunId?: string | undefined;
  /** Only runs that no other run started. */
  readonly topLevel?: boolean | undefined;
  /** Only runs whose id begins so. */
  readonly idPrefix?: string | undefined;
  /** Only runs that were created then or later. */
  readonly since?: string | undefined;
  /** Only runs that were created before the one of this key: the next page. */
  readonly beforeKey?: number | undefined;
  readonly limit: number;
}

/** Runs, newest first. Keys rise with creation, so a page is a walk down the primary key. */
export async function listRuns(postgres: Postgres, query: RunQuery): Promise<RunRow[]> {
  // Without a name: which condition is the selective one depends on the values.
  const text = `select ${RUN_COLUMNS} from runledger.runs r
    where ($1::text is null or r.tenant_id = $1)
      and ($2::integer is null or r.status & $2 <> 0)
      and ($3::text is null or r.plan_id = $3)
      and ($4::text is null or r.parent_run_id = $4)
      and (not $5::boolean or r.parent_run_id is null)
      and ($6::text is null or starts_with(r.run_id, $6))
      and ($7::bigint is null or r.run_key < $7)
      and ($8::timestamptz is null or r.created_at >= $8)
    order by r.run_key desc limit $9`;
  const rows = await postgres.query<RunColumns>({ text }, [
    query.tenantId ?? null,
    query.statuses ? bitsOf(query.statuses) : null,
    query.planId ?? null,
    query.parentRunId ?? null,
    query.topLevel ?? false,
    query.idPrefix ?? null,
    query.beforeKey ?? null,
    query.since ?? null,
    query.limit,
  ]);
  return rows.map(toRun);
}

/** A run without an event counts as pending. */
function bitsOf(statuses: readonly RunStatus[]): number {
  const bits = statuses.reduce((sum, status) => sum | statusBit(status), 0);
  return statuses.includes('PENDING') ? bits | NO_STATUS : bits;
}

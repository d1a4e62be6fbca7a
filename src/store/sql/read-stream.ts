import type { LedgerRecord } from '../../contracts/envelope.ts';
import type { Postgres } from './postgres.ts';
import { type EventRecordRow, RECORD_COLUMNS, toRecord } from './read-events.ts';

/** A place in the commit-ordered stream of all runs. */
export interface StreamCursor {
  readonly era: number;
  readonly xid: number;
  readonly runKey: number;
  readonly runSeq: number;
}

export interface StreamEvent {
  readonly cursor: StreamCursor;
  readonly record: LedgerRecord;
}

interface StreamRow extends EventRecordRow {
  readonly era: number;
  readonly xid: string;
  readonly run_key: string;
  readonly run_id: string;
  readonly tenant_id: string;
  readonly project_id: string;
  readonly environment_id: string;
  readonly plan_id: string;
  readonly plan_version: string;
}

const RUN_COLUMNS = 'x.run_key, r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version';

/**
 * Rows at or above the oldest running transaction are left for later: one of lower id may still commit, and a cursor
 * that had passed it would never see it. Earlier eras are closed and read whole. The place is hidden from the planner:
 * told that era 1 comes after era 1 it expects no rows, and then sorts the million that there are for every page.
 */
const READ = {
  name: 'read_stream',
  text: `
    select ${RECORD_COLUMNS}, x.era, x.stream_xid::text as xid, ${RUN_COLUMNS}
      from (select e.* from runledger.run_events e
             where (e.era, e.stream_xid, e.run_key, e.run_seq) > ((select $1::integer), (select $2::bigint), (select $3::bigint), (select $4::bigint))
               and (e.era, e.stream_xid) < ((select era from runledger.stream_state),
                                            (select pg_snapshot_xmin(pg_current_snapshot())::text::bigint))
             order by e.era, e.stream_xid, e.run_key, e.run_seq limit $5) x
      cross join lateral (select * from runledger.runs y where y.run_key = x.run_key limit 1) r
     order by x.era, x.stream_xid, x.run_key, x.run_seq`,
};

export async function readStream(
  postgres: Postgres,
  after: StreamCursor | undefined,
  limit: number,
): Promise<StreamEvent[]> {
  const { era, xid, runKey, runSeq } = after ?? { era: 0, xid: 0, runKey: 0, runSeq: 0 };
  const rows = await postgres.query<StreamRow>(READ, [era, xid, runKey, runSeq, limit]);
  return rows.map((row) => ({
    cursor: { era: row.era, xid: Number(row.xid), runKey: Number(row.run_key), runSeq: Number(row.seq) },
    record: joinedRecord(row),
  }));
}

function joinedRecord(row: StreamRow): LedgerRecord {
  return toRecord(
    {
      runKey: Number(row.run_key),
      runId: row.run_id,
      tenantId: row.tenant_id,
      projectId: row.project_id,
      environmentId: row.environment_id,
      planId: row.plan_id,
      planVersion: row.plan_version,
    },
    row,
  );
}

export interface WindowFilter {
  readonly from: string;
  readonly to: string;
  readonly types: readonly number[];
  readonly tenantId: string | null;
  readonly after: { readonly persistedAt: string; readonly runId: string; readonly runSeq: number } | undefined;
  readonly limit: number;
}

/** Events by store time, across runs. */
export async function readWindow(postgres: Postgres, filter: WindowFilter): Promise<LedgerRecord[]> {
  const text = `
    select ${RECORD_COLUMNS}, ${RUN_COLUMNS}, x.era, x.stream_xid::text as xid
      from runledger.run_events x join runledger.runs r using (run_key)
     where x.type = any($1::smallint[]) and x.persisted_at >= $2::timestamptz and x.persisted_at < $3::timestamptz
       and ($4::text is null or r.tenant_id = $4)
       and ($5::timestamptz is null or (x.persisted_at, r.run_id collate "C", x.run_seq) > ($5, $6 collate "C", $7::bigint))
     order by x.persisted_at, r.run_id collate "C", x.run_seq limit $8`;
  const rows = await postgres.query<StreamRow>({ text }, [
    `{${filter.types.join(',')}}`,
    filter.from,
    filter.to,
    filter.tenantId,
    filter.after?.persistedAt ?? null,
    filter.after?.runId ?? null,
    filter.after?.runSeq ?? null,
    filter.limit,
  ]);
  return rows.map(joinedRecord);
}

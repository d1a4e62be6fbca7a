import type { Connection } from './postgres.ts';

/** Where a run's projection stands, and whether it is ours until the transaction ends. */
export interface ProjectionStand {
  readonly runKey: number;
  readonly runId: string;
  readonly tenantId: string;
  readonly projectId: string;
  readonly environmentId: string;
  readonly lastSeq: number;
  readonly watermark: number;
  /** The first event after a gap: the run is STALE. */
  readonly staleUntil: number | undefined;
  /** Size of the saved state, and how long ago it was saved. */
  readonly stateBytes: number;
  readonly ageMs: number;
  readonly claimed: boolean;
}

interface Row {
  readonly run_key: string;
  readonly run_id: string;
  readonly tenant_id: string;
  readonly project_id: string;
  readonly environment_id: string;
  readonly last_seq: string;
  readonly watermark: string;
  readonly stale_until: string | null;
  readonly state_bytes: number;
  readonly age_ms: number | null;
  readonly claimed: boolean;
}

export async function claimProjections(client: Connection, runKeys: readonly number[]): Promise<ProjectionStand[]> {
  const { rows } = await client.query<Row>({
    name: 'claim_projections',
    text: 'select * from runledger.claim_projections($1::bigint[])',
    values: [`{${runKeys.join(',')}}`],
  });
  return rows.map((row) => ({
    runKey: Number(row.run_key),
    runId: row.run_id,
    tenantId: row.tenant_id,
    projectId: row.project_id,
    environmentId: row.environment_id,
    lastSeq: Number(row.last_seq),
    watermark: Number(row.watermark),
    staleUntil: row.stale_until === null ? undefined : Number(row.stale_until),
    stateBytes: row.state_bytes,
    ageMs: row.age_ms ?? Number.POSITIVE_INFINITY,
    claimed: row.claimed,
  }));
}

import type { EngineName } from '../../contracts/values.ts';
import { microsToText } from '../../lib/time.ts';
import type {
  ClaimedUnit,
  ClaimScope,
  Lease,
  Receipt,
  RepairRequest,
  StoredPlan,
  UnitClaim,
  WorkRow,
} from '../work.ts';
import type { Connection, Postgres } from './postgres.ts';
import type { RunIdentity } from './read-events.ts';

interface ClaimRow {
  readonly run_key: string;
  readonly run_id: string;
  readonly tenant_id: string;
  readonly project_id: string;
  readonly environment_id: string;
  readonly plan_id: string;
  readonly plan_version: string;
  readonly unit: string;
  readonly fence: string;
  readonly deliveries: number;
  readonly stop: boolean;
}

export async function claimWork(
  postgres: Postgres,
  request: {
    readonly owner: string;
    readonly limit: number;
    readonly leaseMs: number;
    readonly engine: EngineName;
    readonly scope?: ClaimScope | undefined;
  },
): Promise<{ readonly unit: ClaimedUnit; readonly run: RunIdentity }[]> {
  const { owner, limit, leaseMs, engine, scope } = request;
  const text = `select run_key, run_id, tenant_id, project_id, environment_id, plan_id, plan_version, unit, fence, deliveries, stop
    from runledger.claim_work($1::text, $2::integer, $3::integer, $4::text, $5::text[], $6::text, $7::text)`;
  const only = [scope?.runs ?? null, scope?.tenantId ?? null, scope?.projectId ?? null];
  const rows = await postgres.query<ClaimRow>({ name: 'claim_work', text }, [owner, leaseMs, limit, engine, ...only]);
  return rows.map((row) => {
    const { run_id: runId, tenant_id: tenantId, unit, deliveries, stop } = row;
    const runKey = Number(row.run_key);
    const { project_id: projectId, environment_id: environmentId, plan_id: planId, plan_version: planVersion } = row;
    return {
      unit: { runKey, runId, tenantId, unit, fence: Number(row.fence), deliveries, stop },
      run: { runKey, runId, tenantId, projectId, environmentId, planId, planVersion },
    };
  });
}

interface UnitRow extends Pick<ClaimRow, 'run_key' | 'tenant_id' | 'deliveries' | 'stop'> {
  readonly fence: string | null;
  readonly held: boolean;
  readonly leased: boolean;
  readonly wait_ms: number;
}

export async function claimUnit(
  postgres: Postgres,
  request: { readonly runId: string; readonly unit: string; readonly owner: string; readonly leaseMs: number },
): Promise<UnitClaim> {
  const { runId, unit, owner, leaseMs } = request;
  const text = `select run_key, tenant_id, fence, deliveries, stop, held, leased, wait_ms
    from runledger.claim_unit($1::text, $2::text, $3::text, $4::integer)`;
  const [row] = await postgres.query<UnitRow>({ name: 'claim_unit', text }, [runId, unit, owner, leaseMs]);
  if (!row) return { state: 'gone' };
  if (row.held) return { state: 'held' };
  if (row.fence === null) return { state: row.leased ? 'leased' : 'later', waitMs: row.wait_ms };
  const { tenant_id: tenantId, deliveries, stop } = row;
  const [runKey, fence] = [Number(row.run_key), Number(row.fence)];
  return { state: 'claimed', unit: { runKey, runId, tenantId, unit, fence, deliveries, stop } };
}

export async function overdueRuns(
  postgres: Postgres,
  engine: EngineName,
  { olderThanMs, limit }: { readonly olderThanMs: number; readonly limit: number },
): Promise<string[]> {
  // A run has many units; more of them are read than runs are asked for, and the oldest come first. The time is that of the
  // statement: one that may go on while it runs would bound no index.
  const text = `select r.run_id from (
      select distinct w.run_key from (
        select run_key from runledger.work where not held and engine = $1
           and available_at < statement_timestamp() - $2::float8 * interval '1 millisecond'
         order by available_at limit $3::integer * 20) w limit $3::integer) d
    join runledger.runs r using (run_key)`;
  const rows = await postgres.query<{ run_id: string }>({ name: 'overdue_runs', text }, [engine, olderThanMs, limit]);
  return rows.map((row) => row.run_id);
}

export async function checkIn(postgres: Postgres, owner: string, hostTag: string): Promise<string[]> {
  const text = 'select owner from runledger.check_in($1::text, $2::text) owner';
  const rows = await postgres.query<{ owner: string }>({ name: 'check_in', text }, [owner, hostTag]);
  return rows.map((row) => row.owner);
}

export async function releaseOwners(postgres: Postgres, owners: readonly string[]): Promise<number> {
  const text = 'select runledger.release_owners($1::text[]) as freed';
  const [row] = await postgres.query<{ freed: number }>({ name: 'release_owners', text }, [owners]);
  return row?.freed ?? 0;
}

type RunLease = Lease & { readonly runKey: number };

const columns = (leases: readonly RunLease[]): unknown[] => [
  leases.map((lease) => lease.runKey),
  leases.map((lease) => lease.unit),
  leases.map((lease) => lease.fence),
];

export async function renewWork(
  postgres: Postgres,
  leases: readonly RunLease[],
  leaseMs: number,
): Promise<{ held: boolean; stop: boolean }[]> {
  const text = 'select ord, stop from runledger.renew_work($1::bigint[], $2::text[], $3::bigint[], $4::integer)';
  const rows = await postgres.query<{ ord: number; stop: boolean }>({ name: 'renew_work', text }, [
    ...columns(leases),
    leaseMs,
  ]);
  const found = new Map(rows.map((row) => [row.ord, row.stop]));
  return leases.map((_, i) => ({ held: found.has(i + 1), stop: found.get(i + 1) ?? false }));
}

export async function releaseWork(
  postgres: Postgres,
  leases: readonly RunLease[],
  delayMs: number,
  error: string | undefined,
): Promise<void> {
  const text = 'select runledger.release_work($1::bigint[], $2::text[], $3::bigint[], $4::integer, $5::text)';
  await postgres.query({ name: 'release_work', text }, [...columns(leases), delayMs, error ?? null]);
}

export async function discardWork(postgres: Postgres, lease: RunLease): Promise<boolean> {
  const text = 'select runledger.discard_work($1::bigint, $2::text, $3::bigint) as done';
  const [row] = await postgres.query<{ done: boolean }>({ name: 'discard_work', text }, [
    lease.runKey,
    lease.unit,
    lease.fence,
  ]);
  return row?.done ?? false;
}

export async function burnWork(postgres: Postgres, lease: RunLease, leaseMs: number): Promise<number | undefined> {
  const text = 'select runledger.burn_work($1::bigint, $2::text, $3::bigint, $4::integer)::text as fence';
  const [row] = await postgres.query<{ fence: string | null }>({ name: 'burn_work', text }, [
    lease.runKey,
    lease.unit,
    lease.fence,
    leaseMs,
  ]);
  return row?.fence ? Number(row.fence) : undefined;
}

export async function wakeWork(postgres: Postgres, runId: string, unit: string): Promise<boolean> {
  const text = 'select runledger.wake_work($1::text, $2::text) as done';
  const [row] = await postgres.query<{ done: boolean }>({ name: 'wake_work', text }, [runId, unit]);
  return row?.done ?? false;
}

/** Inside a transaction: nobody else appends to the run until it ends. */
export async function lockRun(client: Connection, runKey: number): Promise<void> {
  await client.query({ name: 'lock_run', text: 'select runledger.lock_run($1::bigint)', values: [runKey] });
}

export async function repairWork(
  postgres: Postgres,
  runKey: number,
  { atSeq, units, loops }: RepairRequest,
): Promise<number | undefined> {
  const text = `select runledger.repair_work($1::bigint, $2::bigint, $3::text[], $4::text[], $5::boolean[], $6::integer[],
    $7::text[], $8::integer[], $9::integer[], $10::integer[], $11::integer[], $12::boolean[], $13::text[]) as added`;
  const [row] = await postgres.query<{ added: number | null }>({ name: 'repair_work', text }, [
    runKey,
    atSeq,
    units.map((unit) => unit.unit),
    units.map((unit) => unit.dueAt ?? null),
    units.map((unit) => unit.held),
    units.map((unit) => unit.taken ?? 0),
    loops.map((loop) => loop.loop),
    loops.map((loop) => loop.next),
    loops.map((loop) => loop.total),
    loops.map((loop) => loop.inFlight),
    loops.map((loop) => loop.maxInFlight),
    loops.map((loop) => loop.stopped),
    loops.map((loop) => `{${loop.skip.join(',')}}`),
  ]);
  return row?.added ?? undefined;
}

interface ListRow {
  readonly unit: string;
  readonly fence: string;
  readonly owner: string | null;
  readonly us: string | null;
  readonly deliveries: number;
  readonly held: boolean;
  readonly last_error: string | null;
}

export async function listWork(postgres: Postgres, runKey: number): Promise<WorkRow[]> {
  const text = `select unit, fence::text as fence, lease_owner as owner, deliveries, held, last_error,
      (extract(epoch from nullif(nullif(available_at, 'infinity'), '-infinity')) * 1000000)::bigint::text as us
    from runledger.work where run_key = $1 order by unit`;
  const rows = await postgres.query<ListRow>({ name: 'list_work', text }, [runKey]);
  return rows.map((row) => {
    const at = row.us === null ? undefined : microsToText(Number(row.us));
    return {
      unit: row.unit,
      fence: Number(row.fence),
      ...(row.owner === null ? {} : { leaseOwner: row.owner }),
      ...(at === undefined ? {} : row.owner === null ? { nextEligibleAt: at } : { leaseExpiresAt: at }),
      deliveries: row.deliveries,
      held: row.held,
      ...(row.last_error === null ? {} : { lastError: row.last_error }),
    };
  });
}

interface ReceiptRow {
  readonly run_id: string;
  readonly path: string;
  readonly status: Receipt['status'];
  readonly settles_in: number | null;
  readonly details: string;
}

export async function findReceipt(postgres: Postgres, tenantId: string, key: string): Promise<Receipt | undefined> {
  const text = `select r.run_id, x.path, x.status, x.details,
      (extract(epoch from x.settled_by - clock_timestamp()) * 1000)::float8 as settles_in
    from runledger.receipts x join runledger.runs r using (run_key) where x.tenant_id = $1 and x.effect_key = $2`;
  const [row] = await postgres.query<ReceiptRow>({ name: 'find_receipt', text }, [tenantId, key]);
  if (!row) return undefined;
  return {
    key,
    runId: row.run_id,
    path: row.path,
    status: row.status,
    ...(row.settles_in === null ? {} : { settlesInMs: row.settles_in }),
    details: JSON.parse(row.details) as Record<string, unknown>,
  };
}

/** Status bits above 8 are those of runs that have ended; see `states.ts`. */
export async function openChildren(postgres: Postgres, runId: string): Promise<string[]> {
  const text = `select run_id from runledger.runs where parent_run_id = $1 and status not in (16, 32, 64) order by run_key`;
  const rows = await postgres.query<{ run_id: string }>({ name: 'open_children', text }, [runId]);
  return rows.map((row) => row.run_id);
}

export async function putPlan(postgres: Postgres, plan: StoredPlan): Promise<void> {
  const text = `insert into runledger.plans (sha256, plan_id, plan_version, schema_version, body)
    values (decode($1, 'hex'), $2, $3, $4, $5) on conflict do nothing`;
  await postgres.query({ name: 'put_plan', text }, [
    plan.sha256,
    plan.planId,
    plan.planVersion,
    plan.schemaVersion,
    plan.body,
  ]);
}

const PLAN_COLUMNS = `encode(sha256, 'hex') as sha256, plan_id as "planId", plan_version as "planVersion",
  schema_version as "schemaVersion", body`;

export async function findPlan(postgres: Postgres, sha256: string): Promise<StoredPlan | undefined> {
  const text = `select ${PLAN_COLUMNS} from runledger.plans where sha256 = decode($1, 'hex')`;
  return (await postgres.query<StoredPlan>({ name: 'find_plan', text }, [sha256]))[0];
}

export async function findPlanById(postgres: Postgres, planId: string): Promise<StoredPlan | undefined> {
  const text = `select ${PLAN_COLUMNS} from runledger.plans where plan_id = $1 order by created_at desc limit 1`;
  return (await postgres.query<StoredPlan>({ name: 'find_plan_by_id', text }, [planId]))[0];
}

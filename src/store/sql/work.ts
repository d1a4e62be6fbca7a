import { microsToText } from '../../lib/time.ts';
import type { ClaimedUnit, Lease, Receipt, RepairRequest, StoredPlan, WorkRow } from '../work.ts';
import type { Postgres } from './postgres.ts';

interface ClaimRow {
  readonly run_key: string;
  readonly run_id: string;
  readonly tenant_id: string;
  readonly unit: string;
  readonly fence: string;
  readonly deliveries: number;
  readonly stop: boolean;
}

export async function claimWork(
  postgres: Postgres,
  owner: string,
  limit: number,
  leaseMs: number,
): Promise<ClaimedUnit[]> {
  const text =
    'select run_key, run_id, tenant_id, unit, fence, deliveries, stop from runledger.claim_work($1::text, $2::integer, $3::integer)';
  const rows = await postgres.query<ClaimRow>({ name: 'claim_work', text }, [owner, leaseMs, limit]);
  return rows.map((row) => ({
    runKey: Number(row.run_key),
    runId: row.run_id,
    tenantId: row.tenant_id,
    unit: row.unit,
    fence: Number(row.fence),
    deliveries: row.deliveries,
    stop: row.stop,
  }));
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

export async function repairWork(
  postgres: Postgres,
  runKey: number,
  { atSeq, units, loops }: RepairRequest,
): Promise<number | undefined> {
  const text = `select runledger.repair_work($1::bigint, $2::bigint, $3::text[], $4::text[], $5::boolean[],
    $6::text[], $7::integer[], $8::integer[], $9::integer[], $10::integer[], $11::boolean[], $12::text[]) as added`;
  const [row] = await postgres.query<{ added: number | null }>({ name: 'repair_work', text }, [
    runKey,
    atSeq,
    units.map((unit) => unit.unit),
    units.map((unit) => unit.dueAt ?? null),
    units.map((unit) => unit.held),
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

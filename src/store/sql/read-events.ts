import { eventRow, eventTypeOfCode } from '../../contracts/catalogue.ts';
import type { LedgerRecord } from '../../contracts/envelope.ts';
import { microsToText } from '../../lib/time.ts';
import type { Postgres } from './postgres.ts';

/** One event as it comes from the database; byte columns are hex. */
export interface EventRecordRow {
  readonly seq: string;
  readonly us: string;
  readonly type: number;
  readonly eventId: string;
  readonly path: string;
  readonly engine: number;
  readonly logical: number;
  readonly emitted: string;
  readonly key: string;
  readonly record: string;
  readonly chain: string;
  readonly salt: string | null;
  readonly payload: string | null;
}

export const RECORD_COLUMNS = `
  x.run_seq::text as seq, (extract(epoch from x.persisted_at) * 1000000)::bigint::text as us, x.type, x.event_id as "eventId", x.path,
  x.engine_attempt as engine, x.logical_attempt as logical, x.emitted_at as emitted,
  encode(x.idempotency_key, 'hex') as key, encode(x.record_hash, 'hex') as record, encode(x.chain_hash, 'hex') as chain,
  encode(x.salt, 'hex') as salt, x.payload`;

/** The fields that every event of a run shares and that rows therefore do not hold. */
export interface RunIdentity {
  readonly runKey: number;
  readonly runId: string;
  readonly tenantId: string;
  readonly projectId: string;
  readonly environmentId: string;
  readonly planId: string;
  readonly planVersion: string;
}

export function toRecord(run: RunIdentity, row: EventRecordRow): LedgerRecord {
  const eventType = eventTypeOfCode(row.type);
  const place = placeOf(eventType, row.path);
  return {
    eventId: row.eventId,
    eventType,
    emittedAt: row.emitted,
    runId: run.runId,
    tenantId: run.tenantId,
    projectId: run.projectId,
    environmentId: run.environmentId,
    planId: run.planId,
    planVersion: run.planVersion,
    engineAttemptId: row.engine,
    logicalAttemptId: row.logical,
    idempotencyKey: row.key,
    ...place,
    ...(row.payload === null ? {} : { payload: JSON.parse(row.payload) as Record<string, unknown> }),
    runSeq: Number(row.seq),
    persistedAt: microsToText(Number(row.us)),
    ...(row.salt === null ? { erased: true as const } : {}),
    proof: { recordHash: row.record, chainHash: row.chain, ...(row.salt === null ? {} : { salt: row.salt }) },
  };
}

/** stepId and entity are stored as one path; the level of the type tells them apart. */
export function placeOf(eventType: string, path: string): { stepId?: string; entity?: string } {
  if (path === '') return {};
  if (eventRow(eventType)?.level === 'signal' || path.startsWith('signal/')) return { entity: path };
  const slash = path.indexOf('/');
  return slash < 0 ? { stepId: path } : { stepId: path.slice(0, slash), entity: path };
}

/** Which events of a run to read. Conditions narrow each other; order is always runSeq. */
export interface EventFilter {
  readonly afterSeq?: number | undefined;
  readonly throughSeq?: number | undefined;
  /** Type codes. */
  readonly types?: readonly number[] | undefined;
  /** A step instance or finer entity path, with everything below it. */
  readonly entity?: string | undefined;
  readonly limit: number;
}

/** The pool, or the connection of a transaction: who holds a lock must not wait for another connection. */
export type Reader = Pick<Postgres, 'query'>;

export async function readRunEvents(postgres: Reader, run: RunIdentity, filter: EventFilter): Promise<LedgerRecord[]> {
  const values: unknown[] = [run.runKey, filter.afterSeq ?? 0, filter.limit];
  let where = 'x.run_key = $1 and x.run_seq > $2';
  let name: string | undefined = 'read_events';
  if (filter.throughSeq !== undefined) {
    where += ` and x.run_seq <= $${values.push(filter.throughSeq)}`;
    name = 'read_events_through';
  }
  if (filter.types) {
    where += ` and x.type = any($${values.push(`{${filter.types.join(',')}}`)}::smallint[])`;
    name = undefined;
  }
  if (filter.entity !== undefined) {
    const at = values.push(filter.entity);
    // '0' follows '/' in byte order: one range of the index holds the entity and what lies below it, and little else.
    where += ` and x.path >= $${at} and x.path < $${at} || '0' and (x.path = $${at} or x.path >= $${at} || '/')`;
    name = undefined;
  }
  const text = `select ${RECORD_COLUMNS} from runledger.run_events x where ${where} order by x.run_seq limit $3`;
  const rows = await postgres.query<EventRecordRow>(name === undefined ? { text } : { name, text }, values);
  return rows.map((row) => toRecord(run, row));
}

export async function readRunEventsBySeq(
  postgres: Postgres,
  run: RunIdentity,
  seqs: readonly number[],
): Promise<LedgerRecord[]> {
  const text = `select ${RECORD_COLUMNS} from runledger.run_events x where x.run_key = $1 and x.run_seq = any($2::bigint[]) order by x.run_seq`;
  const rows = await postgres.query<EventRecordRow>({ name: 'read_events_by_seq', text }, [
    run.runKey,
    `{${seqs.join(',')}}`,
  ]);
  return rows.map((row) => toRecord(run, row));
}

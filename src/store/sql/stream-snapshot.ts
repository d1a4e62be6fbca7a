import type { Postgres } from './postgres.ts';

/** What a reader of the stream can rely on at one moment. */
export interface StreamSnapshot {
  readonly era: number;
  /** Below this transaction none can write any more. */
  readonly xmin: number;
  /** At and above this one none had begun. */
  readonly xmax: number;
  /** Transactions between the two that were still under way. */
  readonly inFlight: readonly number[];
  /** The database's clock. */
  readonly nowMicros: number;
}

const SNAPSHOT = {
  name: 'stream_snapshot',
  text: `select era, pg_current_snapshot()::text as snapshot, (extract(epoch from clock_timestamp()) * 1000000)::bigint::text as us
           from runledger.stream_state`,
};

export async function streamSnapshot(postgres: Postgres): Promise<StreamSnapshot> {
  const [row] = await postgres.query<{ era: number; snapshot: string; us: string }>(SNAPSHOT);
  const [xmin, xmax, inFlight] = (row?.snapshot ?? '0:0:').split(':') as [string, string, string];
  return {
    era: row?.era ?? 0,
    xmin: Number(xmin),
    xmax: Number(xmax),
    inFlight: inFlight === '' ? [] : inFlight.split(',').map(Number),
    nowMicros: Number(row?.us ?? 0),
  };
}

/** The session, or the prepared transaction, that keeps new events from delivery. */
export interface HorizonHolder {
  readonly pid: number;
  readonly application: string;
  readonly user: string;
  readonly database: string;
}

// Sessions show the lower half of their transaction id.
const HOLDER = {
  name: 'stream_horizon_holder',
  text: `
    select pid, coalesce(application_name, '') as application, coalesce(usename::text, '') as "user", coalesce(datname::text, '') as database
      from pg_stat_activity where backend_xid::text::bigint = ($1::bigint & 4294967295)
    union all
    select 0, 'prepared transaction ' || gid, owner::text, database::text
      from pg_prepared_xacts where transaction::text::bigint = ($1::bigint & 4294967295)
     limit 1`,
};

/** Undefined when the transaction has ended, or belongs to a session that this role may not see. */
export async function horizonHolder(postgres: Postgres, xid: number): Promise<HorizonHolder | undefined> {
  const [holder] = await postgres.query<HorizonHolder>(HOLDER, [xid]);
  return holder;
}

import type { Postgres } from './postgres.ts';
import type { StreamCursor } from './read-stream.ts';

/** A run with events that its snapshot does not show. */
export interface UnprojectedRun {
  readonly runKey: number;
  /** No event of the run below this place in the stream is missing. */
  readonly era: number;
  readonly xid: number;
  readonly firstSeq: number;
  readonly lastSeq: number;
  /** Store time of the oldest of them. */
  readonly micros: number;
}

export interface UnprojectedPage {
  readonly runs: readonly UnprojectedRun[];
  /** Where the next page begins; undefined when this was the last one. */
  readonly next: StreamCursor | undefined;
}

/**
 * The page size is part of the text, and the place is hidden from the planner. Told that era 1 comes after era 1 it
 * expects no rows, and then sorts the million that there are instead of walking along the index.
 */
const PAGE = 5000;

/**
 * One page of the stream after a place, whether or not delivery may see it yet, without what is projected already.
 * Watermarks are looked up one by one: a join would read all snapshots there are whenever a page looks large.
 */
const SCAN = {
  name: 'scan_unprojected',
  text: `
    with page as materialized (
      select e.era, e.stream_xid, e.run_key, e.run_seq, e.persisted_at from runledger.run_events e
       where (e.era, e.stream_xid, e.run_key, e.run_seq) > ((select $1::integer), (select $2::bigint), (select $3::bigint), (select $4::bigint))
       order by e.era, e.stream_xid, e.run_key, e.run_seq limit ${PAGE}),
    marks as materialized (
      select d.run_key, coalesce((select s.last_event_seq from runledger.snapshots s where s.run_key = d.run_key), 0) as mark
        from (select distinct run_key from page) d),
    missing as (
      select p.run_key, min(p.era) as era, min(p.stream_xid) as xid, min(p.run_seq) as first, max(p.run_seq) as last,
             (extract(epoch from min(p.persisted_at)) * 1000000)::bigint as us
        from page p join marks m on m.run_key = p.run_key and p.run_seq > m.mark group by p.run_key)
    select (select count(*)::integer from page) as size,
           (select json_build_array(era, stream_xid, run_key, run_seq) from page
             order by era desc, stream_xid desc, run_key desc, run_seq desc limit 1) as last,
           (select json_agg(json_build_array(run_key, era, xid, first, last, us) order by era, xid, run_key) from missing) as runs`,
};

interface Row {
  readonly size: number;
  readonly last: [number, number, number, number] | null;
  readonly runs: [number, number, number, number, number, number][] | null;
}

export async function scanUnprojected(postgres: Postgres, after: StreamCursor): Promise<UnprojectedPage> {
  const [row] = await postgres.query<Row>(SCAN, [after.era, after.xid, after.runKey, after.runSeq]);
  const runs = (row?.runs ?? []).map(([runKey, era, xid, firstSeq, lastSeq, micros]) => ({
    runKey,
    era,
    xid,
    firstSeq,
    lastSeq,
    micros,
  }));
  if (!row?.last || row.size < PAGE) return { runs, next: undefined };
  const [era, xid, runKey, runSeq] = row.last;
  return { runs, next: { era, xid, runKey, runSeq } };
}

import type { Connection } from './postgres.ts';

/** A folded run: its state as text, the view of it, and the event that a STALE run waits for. */
export interface ProjectionRow {
  readonly runKey: number;
  readonly lastEventSeq: number;
  readonly state: string;
  readonly snapshot: string;
  readonly staleUntil: number | undefined;
}

export async function loadStates(client: Connection, runKeys: readonly number[]): Promise<Map<number, string>> {
  const { rows } = await client.query<{ key: string; state: string }>({
    name: 'load_states',
    text: 'select run_key::text as key, state from runledger.snapshots where run_key = any($1::bigint[])',
    values: [`{${runKeys.join(',')}}`],
  });
  return new Map(rows.map((row) => [Number(row.key), row.state]));
}

// The texts travel as bytes in one piece: as an array of texts every quote in them would have to be escaped.
const SAVE = {
  name: 'save_projections',
  text: `
    insert into runledger.snapshots (run_key, last_event_seq, stale_until, state, snapshot)
    select u.run_key, u.seq, nullif(u.stale, 0), convert_from(substring($6::bytea from u.at for u.size), 'UTF8'),
           convert_from(substring($6::bytea from u.at + u.size for u.view_size), 'UTF8')
      from (select p.*, sum(p.size + p.view_size) over (order by p.ord) - p.size - p.view_size as start
              from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::integer[], $5::integer[])
                   with ordinality p(run_key, seq, stale, size, view_size, ord)) o
      cross join lateral (select o.run_key, o.seq, o.stale, o.size, o.view_size, o.start::integer + 1) u(run_key, seq, stale, size, view_size, at)
     order by u.run_key
    on conflict (run_key) do update set last_event_seq = excluded.last_event_seq, stale_until = excluded.stale_until,
      state = excluded.state, snapshot = excluded.snapshot, updated_at = clock_timestamp()
    where snapshots.last_event_seq <= excluded.last_event_seq`,
};

/** Saves the projections that the transaction has claimed. None of them ever goes back. */
export async function saveProjections(client: Connection, rows: readonly ProjectionRow[]): Promise<void> {
  const texts = rows.flatMap((row) => [Buffer.from(row.state), Buffer.from(row.snapshot)]);
  const column = (values: readonly number[]) => `{${values.join(',')}}`;
  await client.query({
    ...SAVE,
    values: [
      column(rows.map((row) => row.runKey)),
      column(rows.map((row) => row.lastEventSeq)),
      column(rows.map((row) => row.staleUntil ?? 0)),
      column(rows.map((_, i) => (texts[i * 2] as Buffer).length)),
      column(rows.map((_, i) => (texts[i * 2 + 1] as Buffer).length)),
      Buffer.concat(texts),
    ],
  });
}

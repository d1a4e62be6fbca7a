import type { Postgres } from './postgres.ts';
import type { StreamCursor } from './read-stream.ts';

/** A named place in the stream that the readers of one kind share. */
export async function loadCursor(postgres: Postgres, name: string): Promise<StreamCursor | undefined> {
  const text = `select era, stream_xid::text as xid, run_key::text as key, run_seq::text as seq from runledger.cursors where name = $1`;
  const [row] = await postgres.query<{ era: number; xid: string; key: string; seq: string }>(
    { name: 'load_cursor', text },
    [name],
  );
  return row && { era: row.era, xid: Number(row.xid), runKey: Number(row.key), runSeq: Number(row.seq) };
}

/** Moves a cursor forward. Of several readers the one that is farthest wins; none moves it back. */
export async function advanceCursor(postgres: Postgres, name: string, to: StreamCursor): Promise<void> {
  const text = `
    insert into runledger.cursors as c (name, era, stream_xid, run_key, run_seq) values ($1, $2, $3, $4, $5)
    on conflict (name) do update set era = excluded.era, stream_xid = excluded.stream_xid, run_key = excluded.run_key,
      run_seq = excluded.run_seq, updated_at = clock_timestamp()
    where (c.era, c.stream_xid, c.run_key, c.run_seq) < (excluded.era, excluded.stream_xid, excluded.run_key, excluded.run_seq)`;
  await postgres.query({ name: 'advance_cursor', text }, [name, to.era, to.xid, to.runKey, to.runSeq]);
}

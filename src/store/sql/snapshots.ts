import type { RunSnapshot } from '../../contracts/snapshot.ts';
import type { SavedSnapshot } from '../store.ts';
import type { Postgres } from './postgres.ts';

export async function loadSnapshot(postgres: Postgres, runKey: number): Promise<SavedSnapshot | undefined> {
  const text = 'select last_event_seq::text as seq, state, snapshot from runledger.snapshots where run_key = $1';
  const [row] = await postgres.query<{ seq: string; state: string; snapshot: string }>(
    { name: 'load_snapshot', text },
    [runKey],
  );
  return row && { lastEventSeq: Number(row.seq), state: row.state, snapshot: JSON.parse(row.snapshot) as RunSnapshot };
}

/** Never goes back: of two projectors of one run, the one that has seen more wins. */
export async function saveSnapshot(postgres: Postgres, runKey: number, saved: SavedSnapshot): Promise<boolean> {
  const text = `
    insert into runledger.snapshots (run_key, last_event_seq, state, snapshot) values ($1, $2, $3, $4)
    on conflict (run_key) do update set last_event_seq = excluded.last_event_seq, state = excluded.state,
      snapshot = excluded.snapshot, updated_at = clock_timestamp()
    where snapshots.last_event_seq <= excluded.last_event_seq
    returning 1`;
  const values = [runKey, saved.lastEventSeq, saved.state, JSON.stringify(saved.snapshot)];
  return (await postgres.query({ name: 'save_snapshot', text }, values)).length > 0;
}

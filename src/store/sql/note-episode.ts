import { microsToText } from '../../lib/time.ts';
import type { Postgres } from './postgres.ts';

const NOTE = {
  name: 'note_episode',
  text: `
    insert into runledger.episodes as e (name, opened_at, seen_at) values ($1, clock_timestamp(), clock_timestamp())
    on conflict (name) do update set seen_at = excluded.seen_at,
      opened_at = case when e.seen_at < excluded.seen_at - $2::float8 * interval '1 millisecond' then excluded.opened_at else e.opened_at end
    returning (extract(epoch from opened_at) * 1000000)::bigint::text as us`,
};

/**
 * Notes that a condition holds now, and answers since when. Observers of any process share the episode, which has ended
 * when none of them saw it for `quietMs`: one observer's opinion that all is well again does not end it.
 */
export async function noteEpisode(postgres: Postgres, name: string, quietMs: number): Promise<string> {
  const [row] = await postgres.query<{ us: string }>(NOTE, [name, quietMs]);
  return microsToText(Number(row?.us ?? 0));
}

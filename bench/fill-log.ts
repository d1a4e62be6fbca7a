import pg from 'pg';
import type { benchServer } from './harness.ts';

const PER_RUN = 500;

/** Fills the log to at least `size` events by plain inserts of runs and rows; gives back how many there are. */
export async function fillLog(
  target: Awaited<ReturnType<typeof benchServer>>['target'],
  size: number,
  progress: (text: string) => void,
): Promise<number> {
  const client = new pg.Client(target);
  await client.connect();
  try {
    const count = async (): Promise<number> =>
      Number((await client.query('select count(*) from runledger.run_events')).rows[0].count);
    let events = await count();
    while (events < size) {
      progress(`filling the log: ${events} of ${size} events`);
      const runs = Math.min(200, Math.ceil((size - events) / PER_RUN));
      await client.query(
        `with r as (
           insert into runledger.runs (run_id, tenant_id, project_id, environment_id, plan_id, plan_version, status, last_seq)
           select gen_random_uuid()::text, 't', 'p', 'e', 'plan', '1', 16, $2 from generate_series(1, $1) returning run_key)
         insert into runledger.run_events
         select r.run_key, s, pg_current_xact_id()::text::bigint, clock_timestamp(), 1, 1, 1, (array[21, 40, 44, 22])[1 + s % 4]::smallint,
                gen_random_uuid(), 'step_' || s / 4 || '/task_0:1', '2026-01-01T00:00:00.000Z', sha256(int8send(r.run_key) || int8send(s)),
                sha256(int8send(s)), sha256(int8send(s)), decode(repeat('00', 16), 'hex'), repeat('x', 150)
           from r, generate_series(1, $2) s`,
        [runs, PER_RUN],
      );
      events += runs * PER_RUN;
    }
    await client.query('vacuum analyze runledger.run_events');
    return events;
  } finally {
    await client.end();
  }
}

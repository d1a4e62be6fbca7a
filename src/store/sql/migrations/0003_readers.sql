-- What readers of the log keep: projections, delivery cursors and alerts.

-- No foreign key to runs: checking one takes a lock on the run's row that appends to the run would wait for.
create table runledger.snapshots (
  run_key bigint primary key,
  last_event_seq bigint not null,
  -- The folded state, from which projection goes on, and the view of it that people read.
  state text not null,
  snapshot text not null,
  -- The first event after a gap that a projector observed. While it is set the snapshot is STALE.
  stale_until bigint,
  updated_at timestamptz not null default clock_timestamp()
) with (fillfactor = 70);

-- Takes runs for projecting until the end of the transaction, without waiting for those that somebody else has, and says
-- how far each of them is. A killed projector frees its runs by ending its session.
create function runledger.claim_projections(keys bigint[])
  returns table (run_key bigint, run_id text, tenant_id text, project_id text, environment_id text,
                 last_seq bigint, watermark bigint, stale_until bigint, state_bytes integer, age_ms float8, claimed boolean)
  language plpgsql as $$
declare
  mine bigint[];
begin
  -- Two runs that are 2^31 apart share a lock; then one of them waits for the next turn.
  select array_agg(k) into mine from unnest(keys) k where pg_try_advisory_xact_lock(7262020, (k % 2147483647)::integer);
  -- In a second statement, which sees what the projector that had the run before has saved.
  return query
    select r.run_key, r.run_id, r.tenant_id, r.project_id, r.environment_id, r.last_seq, coalesce(s.last_event_seq, 0),
           s.stale_until, coalesce(s.bytes, 0), extract(epoch from clock_timestamp() - s.updated_at)::float8 * 1000,
           coalesce(r.run_key = any(mine), false)
      from runledger.runs r
      -- One by one: for a small table the planner would rather read all of it.
      left join lateral (select x.last_event_seq, x.stale_until, octet_length(x.state) as bytes, x.updated_at
                           from runledger.snapshots x where x.run_key = r.run_key limit 1) s on true
     where r.run_key = any(keys) order by r.run_key;
end $$;

create table runledger.cursors (
  name text primary key,
  era integer not null,
  stream_xid bigint not null,
  run_key bigint not null,
  run_seq bigint not null,
  updated_at timestamptz not null default clock_timestamp()
);

-- Conditions that last, such as a lag. One that was not seen for a while and comes back is another episode.
create table runledger.episodes (
  name text primary key,
  opened_at timestamptz not null,
  seen_at timestamptz not null
);

create table runledger.alerts (
  alert_key bigint generated always as identity primary key,
  dedupe_key text not null unique,
  code text not null,
  severity text not null,
  message text not null,
  raised_at timestamptz not null default clock_timestamp(),
  run_id text,
  alert text not null
);
create index alerts_by_run on runledger.alerts (run_id, alert_key) where run_id is not null;
create index alerts_by_code on runledger.alerts (code, alert_key);

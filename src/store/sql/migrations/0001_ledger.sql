-- The ledger: runs, their append-only events, and what is derived from them.

-- Names the history that transaction ids belong to: those of another cluster, and those of the same cluster after it was
-- restored to an earlier point or a standby took over, are other transactions.
create function runledger.xid_history() returns text
  language sql security definer set search_path = pg_catalog, pg_temp as $$
  select system_identifier || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) from pg_control_system()
$$;

create table runledger.stream_state (
  one boolean primary key default true check (one),
  era integer not null,
  history text not null
);
-- A delivery cursor orders by transaction id, which starts again low in another history. An era is one history's
-- lifetime; a restored dump begins the next one, so that new events cannot sort below what was delivered before.
insert into runledger.stream_state (era, history) values (1, runledger.xid_history());

create table runledger.runs (
  run_key bigint generated always as identity primary key,
  run_id text not null unique,
  tenant_id text not null,
  project_id text not null,
  environment_id text not null,
  plan_id text not null,
  plan_version text not null,
  created_at timestamptz not null default clock_timestamp(),
  -- SHA-256 over the client's own key and over the trigger: the same request twice is one run.
  request_key bytea unique,
  trigger_key bytea unique,
  trigger_type text,
  trigger_ref text,
  parent_run_id text,
  retry_of text,
  -- Which engine schedules the run: only its workers take the run's work.
  engine text not null default 'native',
  -- One bit per status, in the order of the contract; 128 until the first event that gives one.
  status smallint not null default 128,
  last_seq bigint not null default 0,
  -- The last event that a decision must have seen.
  decided_seq bigint not null default 0,
  chain_head bytea not null default decode(repeat('00', 32), 'hex'),
  last_persisted_at timestamptz not null default '-infinity',
  stream_era integer not null default 0,
  stream_xid bigint not null default 0
  -- No index holds a column that an append changes, so that appends stay HOT updates.
) with (fillfactor = 50);
create index runs_by_scope on runledger.runs (tenant_id, project_id, environment_id, run_key);
create index runs_by_parent on runledger.runs (parent_run_id) where parent_run_id is not null;
create index runs_by_retry on runledger.runs (retry_of) where retry_of is not null;

create table runledger.run_refs (
  provider text not null,
  workflow_id text not null,
  provider_run_id text not null,
  run_key bigint not null references runledger.runs,
  primary key (provider, workflow_id, provider_run_id)
);

-- What never changes in a run is in `runs`; stepId and entity are one path ('' for the run itself).
create table runledger.run_events (
  run_key bigint not null,
  run_seq bigint not null,
  stream_xid bigint not null,
  persisted_at timestamptz not null,
  era integer not null,
  engine_attempt integer not null,
  logical_attempt integer not null,
  type smallint not null,
  event_id uuid not null,
  -- In byte order, so that a range of the index is exactly what lies below an entity.
  path text collate "C" not null,
  emitted_at text not null,
  idempotency_key bytea not null,
  record_hash bytea not null,
  chain_hash bytea not null,
  -- Both NULL once erased. An event without a payload has a salt.
  salt bytea,
  payload text,
  primary key (run_key, run_seq),
  unique (run_key, idempotency_key)
) partition by range (run_key);
create index run_events_by_entity on runledger.run_events (run_key, type, path, logical_attempt);
-- Rows lie in the order of their time, so block ranges find a window as well as a tree would, and cost nothing to keep.
create index run_events_by_time on runledger.run_events using brin (persisted_at, type) with (pages_per_range = 16, autosummarize = on);
create index run_events_by_stream on runledger.run_events (era, stream_xid, run_key, run_seq);

create function runledger.refuse_change() returns trigger
  language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op = 'UPDATE'
    and current_setting('runledger.erasing', true) = pg_current_xact_id()::text
    -- Anybody may set the setting; only erase_payloads runs as the owner.
    and current_user = (select pg_get_userbyid(c.relowner) from pg_class c where c.oid = tg_relid)
    and old.salt is not null and new.salt is null and new.payload is null
    and (new.run_key, new.run_seq, new.stream_xid, new.persisted_at, new.era, new.engine_attempt, new.logical_attempt,
         new.type, new.event_id, new.path, new.emitted_at, new.idempotency_key, new.record_hash, new.chain_hash)
      = (old.run_key, old.run_seq, old.stream_xid, old.persisted_at, old.era, old.engine_attempt, old.logical_attempt,
         old.type, old.event_id, old.path, old.emitted_at, old.idempotency_key, old.record_hash, old.chain_hash)
  then
    return new;
  end if;
  raise exception 'run_events is append-only: % is refused', tg_op using errcode = 'RL001';
end $$;
create trigger append_only before update or delete on runledger.run_events
  for each row execute function runledger.refuse_change();
create trigger append_only_truncate before truncate on runledger.run_events
  for each statement execute function runledger.refuse_change();

-- A partition holds the runs of one range of keys, so that old runs lie together and can be detached together.
create function runledger.ensure_partition(for_key bigint) returns void
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  width constant bigint := 100000;
  low constant bigint := (for_key / width) * width;
  name constant text := format('run_events_p%s', low / width);
begin
  if to_regclass('runledger.' || name) is not null then return; end if;
  perform pg_advisory_xact_lock(7262019, (low / width)::integer);
  -- Read from the table: to_regclass remembers that there was none before the lock was waited for.
  if exists (select from pg_class c where c.relnamespace = 'runledger'::regnamespace and c.relname = name) then return; end if;
  -- Attaching takes a lock that lets appends go on; CREATE TABLE ... PARTITION OF would stop them.
  execute format('create table runledger.%I (like runledger.run_events including defaults including constraints including storage)', name);
  execute format('alter table runledger.run_events attach partition runledger.%I for values from (%s) to (%s)', name, low, low + width);
  execute format('create trigger append_only_truncate before truncate on runledger.%I for each statement execute function runledger.refuse_change()', name);
end $$;
select runledger.ensure_partition(0);


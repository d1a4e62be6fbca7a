-- What readers of the log keep: projections, delivery cursors and alerts.

create table runledger.snapshots (
  run_key bigint primary key references runledger.runs,
  last_event_seq bigint not null,
  -- The folded state, from which projection goes on, and the view of it that people read.
  state text not null,
  snapshot text not null,
  updated_at timestamptz not null default clock_timestamp()
);

create table runledger.cursors (
  name text primary key,
  era integer not null,
  stream_xid bigint not null,
  run_key bigint not null,
  run_seq bigint not null,
  updated_at timestamptz not null default clock_timestamp()
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

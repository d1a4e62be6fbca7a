-- What tasks print. No part of the log: nothing is decided or proven by it, the last lines of a killed worker are missing,
-- and rows may be deleted at any time.

create table runledger.task_lines (
  run_key bigint not null,
  -- Each process numbers its own lines and stores them in that order, so that a reader who remembers a number per writer
  -- misses none. One sequence for all would show a later line before an earlier one is committed.
  writer text not null,
  line_no bigint not null,
  printed_at timestamptz not null,
  step_id text not null,
  entity text not null,
  attempt integer not null,
  stream text not null,
  line text not null,
  primary key (run_key, writer, line_no)
);

alter function runledger.grant_use(name) rename to grant_work_use;
create function runledger.grant_use(to_role name) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform runledger.grant_work_use(to_role);
  execute format('grant insert on runledger.task_lines to %I', to_role);
end $$;
revoke all on function runledger.grant_use from public;

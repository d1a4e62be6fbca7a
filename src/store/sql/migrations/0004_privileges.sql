-- Whoever owns the schema migrates it and can do anything to it. The application needs far less.

revoke all on all functions in schema runledger from public;

-- Gives a role what running Runledger takes, and no more: it reads everything, writes what readers keep, and reaches the
-- log only through the functions that extend it. Call it again after a migration that brings new tables.
create function runledger.grant_use(to_role name) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  execute format('grant usage on schema runledger to %I', to_role);
  execute format('grant select on all tables in schema runledger to %I', to_role);
  execute format('grant insert on runledger.run_refs, runledger.alerts to %I', to_role);
  execute format('grant insert, update on runledger.snapshots, runledger.cursors, runledger.episodes to %I', to_role);
  execute format('grant execute on function runledger.append_core, runledger.append_singles, runledger.append_one, runledger.create_runs, runledger.erase_payloads,
    runledger.open_session, runledger.claim_projections to %I', to_role);
end $$;
revoke all on function runledger.grant_use from public;

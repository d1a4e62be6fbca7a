-- The usual end of a unit, for many runs in one transaction: its events are appended, and its row goes over to the unit that
-- follows, under a lease of its own, or goes with everything else of a run that has ended. It takes two statements where
-- commit_work takes ten. Nothing is looked up first: when a call would be refused, an event was stored before or a fence is not
-- the one that the caller names, the transaction ends with RL003 or with a violated key, and the caller asks commit_work.
create function runledger.hand_over_work(
  c_run bigint[], c_count integer[], c_expect bigint[],
  s_run bigint[], s_path text[], s_attempt integer[], step_types smallint[],
  e_run bigint[], e_type smallint[], e_path text[], e_engine integer[], e_logical integer[], e_emitted text[], e_from integer[], e_length integer[],
  e_rule integer[], e_slot integer[], e_prior integer[], e_bytes bytea,
  owner text, ttl_ms integer,
  -- Units that end and those that follow them; and those with which their run ends.
  m_run bigint[], m_unit text[], m_fence bigint[], m_next text[],
  d_run bigint[], d_unit text[], d_fence bigint[],
  out seqs bigint[], out us bigint, out other_us bigint[], out fresh boolean[], out answers integer[], out infos bigint[],
  -- Per unit that follows its place in m_next and its lease.
  out places integer[], out fences bigint[]
) language plpgsql security definer set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  found_rows integer;
begin
  select x.seqs, x.us, x.other_us, x.fresh, x.answers, x.infos into seqs, us, other_us, fresh, answers, infos
    from runledger.append_core(c_run, c_count, c_expect, s_run, s_path, s_attempt, step_types, e_run, e_type, e_path, e_engine, e_logical,
      e_emitted, e_from, e_length, e_rule, e_slot, e_prior, e_bytes, true) x;
  if m_run <> '{}' then
    with moved as (
      update runledger.work w set unit = m.next, lease_owner = owner, fence = nextval('runledger.fences'), deliveries = 1, stop = false,
          last_error = null, available_at = clock_timestamp() + ttl_ms * interval '1 millisecond'
        from unnest(m_run, m_unit, m_fence, m_next) with ordinality m(run, unit, fence, next, ord)
       where w.run_key = m.run and w.unit = m.unit and w.fence = m.fence
      returning m.ord::integer, w.fence)
    select array_agg(moved.ord), array_agg(moved.fence) into places, fences from moved;
    if array_length(places, 1) is distinct from array_length(m_run, 1) then
      raise exception 'a lease is not held any more' using errcode = 'RL003';
    end if;
  end if;
  if d_run <> '{}' then
    with gone as (
      delete from runledger.work w using unnest(d_run, d_unit, d_fence) d(run, unit, fence)
       where w.run_key = d.run and left(w.unit, 2) <> 'x:'
      returning w.unit = d.unit and w.fence = d.fence as is_own)
    select count(*) filter (where gone.is_own) into found_rows from gone;
    if found_rows <> array_length(d_run, 1) then
      raise exception 'a lease is not held any more' using errcode = 'RL003';
    end if;
    delete from runledger.loops l where l.run_key = any(d_run);
  end if;
end $$;
revoke all on function runledger.hand_over_work from public;

alter function runledger.grant_use(name) rename to grant_lines_use;
create function runledger.grant_use(to_role name) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform runledger.grant_lines_use(to_role);
  execute format('grant execute on function runledger.hand_over_work to %I', to_role);
end $$;
revoke all on function runledger.grant_use from public;

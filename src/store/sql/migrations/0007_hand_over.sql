-- The usual end of a unit: its events are appended, and its row goes over to the unit that follows, under a lease of its own, or goes
-- with everything else of a run that has ended. The caller has put together what the events of each run ask for: the `statuses` that
-- allow them, the `to_status` they give or 0, the place of the last one that decisions must see or 0, and facts of steps that must
-- be stored or must not (`p_...`). So nothing is gone through here but the chain. Nothing is looked up first: when a call
-- would be refused, an event was stored before or a fence is not the one that the caller names, the transaction ends with RL003
-- or with a violated key, and the caller asks commit_work.

-- For one run: a small call costs its statements and expressions, not its events, and this has the fewest.
create function runledger.hand_over_one(
  of_run bigint, expect bigint, statuses integer, to_status integer, decided integer,
  p_type smallint[], p_path text[], p_attempt integer[], p_stored boolean[],
  owner text, ttl_ms integer, of_unit text, of_fence bigint,
  -- Null: the run ends with the unit.
  next_unit text,
  e_type smallint[], e_path text[], e_engine integer[], e_logical integer[], e_emitted text[],
  e_id uuid[], e_key bytea[], e_salt bytea[], e_record bytea[], e_payload text[],
  out last_seq bigint, out us bigint, out new_fence bigint
) language plpgsql security definer set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  n constant integer := array_length(e_record, 1);
  base bigint; head bytea; at timestamptz; xid bigint; now_era integer; us_bytes bytea; chains bytea[];
begin
  select r.last_seq, r.chain_head, r.last_persisted_at, case when r.stream_era = s.era then r.stream_xid else 0 end, s.era
    into base, head, at, xid, now_era
    from runledger.stream_state s, runledger.runs r
   where r.run_key = of_run and r.decided_seq = expect and r.status & statuses <> 0 for no key update of r;
  if base is null then raise exception 'a call that is not plain' using errcode = 'RL003'; end if;
  -- The clock is read after the lock, so that time never runs backwards within a run. Leases go by the clock, also one that was set back.
  at := greatest(clock_timestamp(), at);
  us := (extract(epoch from at) * 1000000)::bigint;
  us_bytes := int8send(us);
  for i in 1 .. n loop
    head := sha256(head || e_record[i] || int8send(base + i) || us_bytes);
    chains[i] := head;
  end loop;
  with now as (select greatest(pg_current_xact_id()::text::bigint, xid) as xid),
  added as (
    insert into runledger.run_events (run_key, run_seq, stream_xid, persisted_at, era, engine_attempt, logical_attempt, type,
        event_id, path, emitted_at, idempotency_key, record_hash, chain_hash, salt, payload)
      select of_run, base + e.ord, now.xid, at, now_era, coalesce(e.engine, 1), coalesce(e.logical, 1), e.type,
             e.id, e.path, e.emitted, e.key, e.record, e.chain, e.salt, e.payload
        from now, unnest(e_type, e_path, e_engine, e_logical, e_emitted, e_id, e_key, e_salt, e_record, e_payload, chains)
          with ordinality e(type, path, engine, logical, emitted, id, key, salt, record, payload, chain, ord))
  update runledger.runs t
     set last_seq = base + n, decided_seq = case when decided > 0 then base + decided else t.decided_seq end,
         status = case when to_status > 0 then to_status else t.status end, chain_head = head,
         last_persisted_at = at, stream_era = now_era, stream_xid = now.xid
    from now
   where t.run_key = of_run and not exists (
     select from unnest(p_type, p_path, p_attempt, p_stored) p(type, path, attempt, is_stored)
     -- One look into one index for each, whatever was known of the tables when this was planned.
     left join lateral (
       select x.logical_attempt as attempt from runledger.run_events x
        where x.run_key = of_run and x.type = p.type and x.path = p.path and x.logical_attempt >= p.attempt
        order by x.logical_attempt limit 1) x on true
      where p.is_stored <> coalesce(x.attempt = p.attempt, false))
  returning t.last_seq into last_seq;
  if last_seq is not null and next_unit is not null then
    update runledger.work w set unit = next_unit, lease_owner = owner, fence = nextval('runledger.fences'), deliveries = 1, stop = false,
        last_error = null, available_at = clock_timestamp() + ttl_ms * interval '1 millisecond'
     where w.run_key = of_run and w.unit = of_unit and w.fence = of_fence
    returning w.fence into new_fence;
  elsif last_seq is not null then
    with cleared as (delete from runledger.loops l where l.run_key = of_run),
    gone as (
      delete from runledger.work w where w.run_key = of_run and left(w.unit, 2) <> 'x:'
      returning w.unit, w.fence)
    select gone.fence into new_fence from gone where gone.unit = of_unit and gone.fence = of_fence;
  end if;
  if new_fence is null then raise exception 'a call that is not plain' using errcode = 'RL003'; end if;
end $$;

-- For many runs in one transaction, one call each, sorted by run.
create function runledger.hand_over_work(
  c_run bigint[], c_expect bigint[], c_statuses integer[], c_status integer[], c_decided integer[], c_count integer[],
  p_run bigint[], p_type smallint[], p_path text[], p_attempt integer[], p_stored boolean[],
  owner text, ttl_ms integer,
  -- Units that end and those that follow them; and those with which their run ends.
  m_run bigint[], m_unit text[], m_fence bigint[], m_next text[],
  d_run bigint[], d_unit text[], d_fence bigint[],
  e_run bigint[], e_type smallint[], e_path text[], e_engine integer[], e_logical integer[], e_emitted text[],
  e_id uuid[], e_key bytea[], e_salt bytea[], e_record bytea[], e_payload text[],
  -- Per call the sequence before it; per unit that follows its place in m_next and its lease.
  out bases bigint[], out us bigint, out places integer[], out fences bigint[]
) language plpgsql security definer set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  calls constant integer := array_length(c_run, 1);
  heads bytea[]; lasts bigint[] := '{}'; chains bytea[] := '{}'; seqs bigint[] := '{}';
  head bytea; seq bigint; i integer := 0; latest timestamptz; at timestamptz; us_bytes bytea; xid bigint; now_era integer; found_rows integer;
begin
  -- A run whose head or status is not the one that its caller has seen is missing here. Rows are locked in the order of their keys.
  select array_agg(l.last_seq), array_agg(l.chain_head), max(l.last_persisted_at), max(l.xid), max(l.era)
    into bases, heads, latest, xid, now_era
    from (select r.last_seq, r.chain_head, r.last_persisted_at, case when r.stream_era = s.era then r.stream_xid else 0 end as xid, s.era
            from runledger.stream_state s, unnest(c_run, c_expect, c_statuses) c(run, expect, statuses),
            lateral (select x.last_seq, x.chain_head, x.last_persisted_at, x.stream_era, x.stream_xid from runledger.runs x
                      where x.run_key = c.run and x.decided_seq = c.expect and x.status & c.statuses <> 0 limit 1 for no key update) r) l;
  if array_length(bases, 1) is distinct from calls then raise exception 'a batch that is not plain' using errcode = 'RL003'; end if;
  -- The clock is read after the locks. One time and one place in the stream serve for all: those of no run may run back. A run of a
  -- time before the clock was set back would take the others along into that time, and is for commit_work.
  at := clock_timestamp();
  if at < latest then raise exception 'a batch that is not plain' using errcode = 'RL003'; end if;
  us := (extract(epoch from at) * 1000000)::bigint;
  us_bytes := int8send(us);
  for c in 1 .. calls loop
    head := heads[c]; seq := bases[c];
    for j in 1 .. c_count[c] loop
      i := i + 1; seq := seq + 1;
      head := sha256(head || e_record[i] || int8send(seq) || us_bytes);
      chains[i] := head; seqs[i] := seq;
    end loop;
    heads[c] := head; lasts[c] := seq;
  end loop;
  with now as (select greatest(pg_current_xact_id()::text::bigint, xid) as xid),
  added as (
    insert into runledger.run_events (run_key, run_seq, stream_xid, persisted_at, era, engine_attempt, logical_attempt, type,
        event_id, path, emitted_at, idempotency_key, record_hash, chain_hash, salt, payload)
      select e.run, e.seq, now.xid, at, now_era, coalesce(e.engine, 1), coalesce(e.logical, 1), e.type,
             e.id, e.path, e.emitted, e.key, e.record, e.chain, e.salt, e.payload
        from now, unnest(e_run, seqs, e_type, e_path, e_engine, e_logical, e_emitted, e_id, e_key, e_salt, e_record, e_payload, chains)
          e(run, seq, type, path, engine, logical, emitted, id, key, salt, record, payload, chain))
  update runledger.runs t
     set last_seq = u.seq, decided_seq = case when u.decided > 0 then t.last_seq + u.decided else t.decided_seq end,
         status = case when u.status > 0 then u.status else t.status end, chain_head = u.head,
         last_persisted_at = at, stream_era = now_era, stream_xid = now.xid
    from now, unnest(c_run, lasts, c_decided, c_status, heads) u(key, seq, decided, status, head)
   where t.run_key = u.key and not exists (
     select from unnest(p_run, p_type, p_path, p_attempt, p_stored) p(run, type, path, attempt, is_stored)
     -- One look into one index for each, whatever was known of the tables when this was planned.
     left join lateral (
       select x.logical_attempt as attempt from runledger.run_events x
        where x.run_key = p.run and x.type = p.type and x.path = p.path and x.logical_attempt >= p.attempt
        order by x.logical_attempt limit 1) x on true
      where p.is_stored <> coalesce(x.attempt = p.attempt, false));
  get diagnostics found_rows = row_count;
  if found_rows <> calls then raise exception 'a batch that is not plain' using errcode = 'RL003'; end if;
  if m_run <> '{}' then
    with moved as (
      update runledger.work w set unit = m.next, lease_owner = owner, fence = nextval('runledger.fences'), deliveries = 1, stop = false,
          last_error = null, available_at = at + ttl_ms * interval '1 millisecond'
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

-- Iterations of one loop of one run that end together on one worker: their rows go, and it gets those that follow, or the end of the
-- loop. Others wait for the run's row meanwhile, so it is held for as few statements as can be. Whatever is not plain (a run that does
-- not run, a loop that stops or skips) ends with RL003, as above.
create function runledger.end_iterations(
  of_run bigint, statuses integer, decided integer, of_loop text, owner text, ttl_ms integer, w_unit text[], w_fence bigint[],
  e_type smallint[], e_path text[], e_engine integer[], e_logical integer[], e_emitted text[],
  e_id uuid[], e_key bytea[], e_salt bytea[], e_record bytea[], e_payload text[],
  -- What was handed out, as fence:unit.
  out last_seq bigint, out us bigint, out handouts text[]
) language plpgsql security definer set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  n constant integer := array_length(e_record, 1);
  base bigint; head bytea; at timestamptz; xid bigint; now_era integer; us_bytes bytea; chains bytea[];
  run_tenant text; run_engine text; next_one integer; others integer; room integer; ended integer;
begin
  select r.last_seq, r.chain_head, r.last_persisted_at, case when r.stream_era = s.era then r.stream_xid else 0 end, s.era, r.tenant_id, r.engine
    into base, head, at, xid, now_era, run_tenant, run_engine
    from runledger.stream_state s, runledger.runs r
   where r.run_key = of_run and r.status = 4 and r.status & statuses <> 0 for no key update of r;
  select l.next_index, l.in_flight - array_length(w_unit, 1), least(l.total - l.next_index, l.max_in_flight - l.in_flight + array_length(w_unit, 1))
    into next_one, others, room
    from runledger.loops l where l.run_key = of_run and l.step = of_loop and not l.stopped and l.skipped = '{}' for no key update;
  if base is null or next_one is null or room < 0 then raise exception 'iterations that are not plain' using errcode = 'RL003'; end if;
  at := greatest(clock_timestamp(), at);
  us := (extract(epoch from at) * 1000000)::bigint;
  us_bytes := int8send(us);
  for i in 1 .. n loop
    head := sha256(head || e_record[i] || int8send(base + i) || us_bytes);
    chains[i] := head;
  end loop;
  with now as (select greatest(pg_current_xact_id()::text::bigint, xid) as xid),
  added as (
    insert into runledger.run_events (run_key, run_seq, stream_xid, persisted_at, era, engine_attempt, logical_attempt, type,
        event_id, path, emitted_at, idempotency_key, record_hash, chain_hash, salt, payload)
      select of_run, base + e.ord, now.xid, at, now_era, coalesce(e.engine, 1), coalesce(e.logical, 1), e.type,
             e.id, e.path, e.emitted, e.key, e.record, e.chain, e.salt, e.payload
        from now, unnest(e_type, e_path, e_engine, e_logical, e_emitted, e_id, e_key, e_salt, e_record, e_payload, chains)
          with ordinality e(type, path, engine, logical, emitted, id, key, salt, record, payload, chain, ord))
  update runledger.runs t
     set last_seq = base + n, decided_seq = case when decided > 0 then base + decided else t.decided_seq end, chain_head = head,
         last_persisted_at = at, stream_era = now_era, stream_xid = now.xid
    from now where t.run_key = of_run
  returning t.last_seq into last_seq;
  with counted as (
    update runledger.loops l set next_index = next_one + room, in_flight = others + room where l.run_key = of_run and l.step = of_loop),
  gone as (
    delete from runledger.work w using unnest(w_unit, w_fence) o(unit, fence)
     where w.run_key = of_run and w.unit = o.unit and w.fence = o.fence
    returning 1),
  given as (
    insert into runledger.work (run_key, unit, tenant_id, engine, available_at, lease_owner, fence, deliveries)
      select of_run, u.unit, run_tenant, run_engine, clock_timestamp() + ttl_ms * interval '1 millisecond', owner, nextval('runledger.fences'), 1
        from (select 'i:' || of_loop || '/' || i from generate_series(next_one, next_one + room - 1) i
              union all select 'e:' || of_loop where others + room = 0) u(unit)
      returning unit, fence)
  select (select count(*) from gone), array(select given.fence || ':' || given.unit from given) into ended, handouts;
  if ended <> array_length(w_unit, 1) then raise exception 'a lease is not held any more' using errcode = 'RL003'; end if;
end $$;

-- Creates one run whose first events are known to be allowed, with its first work. A run that exists already ends the transaction
-- with RL003, as does a range of keys that has no partition with 23514; start_runs knows what to do then.
create function runledger.start_one(
  of_id text, of_tenant text, of_project text, of_environment text, of_plan text, of_version text,
  of_request text, of_trigger text, of_trigger_type text, of_trigger_ref text, of_parent text, of_retry text, of_engine text,
  to_status integer, decided integer,
  w_unit text[], w_due text[], w_owner text[], w_ttl integer[],
  e_type smallint[], e_path text[], e_engine integer[], e_logical integer[], e_emitted text[],
  e_id uuid[], e_key bytea[], e_salt bytea[], e_record bytea[], e_payload text[],
  out new_key bigint, out us bigint, out fences bigint[]
) language plpgsql security definer set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  n constant integer := array_length(e_record, 1);
  at constant timestamptz := clock_timestamp();
  head bytea := decode(repeat('00', 32), 'hex'); us_bytes bytea; chains bytea[];
begin
  us := (extract(epoch from at) * 1000000)::bigint;
  us_bytes := int8send(us);
  for i in 1 .. n loop
    head := sha256(head || e_record[i] || int8send(i) || us_bytes);
    chains[i] := head;
  end loop;
  with made as (
    insert into runledger.runs (run_id, tenant_id, project_id, environment_id, plan_id, plan_version, request_key, trigger_key,
        trigger_type, trigger_ref, parent_run_id, retry_of, engine, status, last_seq, decided_seq, chain_head, last_persisted_at, stream_era, stream_xid)
      select of_id, of_tenant, of_project, of_environment, of_plan, of_version, decode(of_request, 'hex'), decode(of_trigger, 'hex'),
             of_trigger_type, of_trigger_ref, of_parent, of_retry, of_engine, to_status, n, decided, head, at, s.era, pg_current_xact_id()::text::bigint
        from runledger.stream_state s
      on conflict do nothing returning run_key, stream_era, stream_xid),
  added as (
    insert into runledger.run_events (run_key, run_seq, stream_xid, persisted_at, era, engine_attempt, logical_attempt, type,
        event_id, path, emitted_at, idempotency_key, record_hash, chain_hash, salt, payload)
      select made.run_key, e.ord, made.stream_xid, at, made.stream_era, coalesce(e.engine, 1), coalesce(e.logical, 1), e.type,
             e.id, e.path, e.emitted, e.key, e.record, e.chain, e.salt, e.payload
        from made, unnest(e_type, e_path, e_engine, e_logical, e_emitted, e_id, e_key, e_salt, e_record, e_payload, chains)
          with ordinality e(type, path, engine, logical, emitted, id, key, salt, record, payload, chain, ord)),
  leased as (
    insert into runledger.work (run_key, unit, tenant_id, engine, available_at, lease_owner, fence, deliveries)
      select made.run_key, w.unit, of_tenant, of_engine,
             case when w.owner is not null then at + w.ttl * interval '1 millisecond' else coalesce(w.due::timestamptz, at) end, w.owner,
             case when w.owner is not null then nextval('runledger.fences') else 0 end, case when w.owner is not null then 1 else 0 end
        from made, unnest(w_unit, w_due, w_owner, w_ttl) w(unit, due, owner, ttl)
      returning fence)
  select made.run_key, array(select leased.fence from leased) into new_key, fences from made;
  if new_key is null then raise exception 'the run exists already' using errcode = 'RL003'; end if;
  -- The next partition is made half a partition ahead, so that no run meets a missing one.
  if new_key % 256 = 0 then perform runledger.ensure_partition(new_key + 50000); end if;
end $$;
revoke all on function runledger.hand_over_work, runledger.hand_over_one, runledger.end_iterations, runledger.start_one from public;

alter function runledger.grant_use(name) rename to grant_lines_use;
create function runledger.grant_use(to_role name) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform runledger.grant_lines_use(to_role);
  execute format('grant execute on function runledger.hand_over_work, runledger.hand_over_one, runledger.end_iterations, runledger.start_one to %I', to_role);
end $$;
revoke all on function runledger.grant_use from public;

-- What there is to do: leases, loops, receipts of effects, and the plans that runs follow. All of it but the plans can be
-- made again from the log.

create table runledger.plans (
  sha256 bytea primary key,
  plan_id text not null,
  plan_version text not null,
  schema_version text not null,
  -- The canonical JSON whose hash is the identity of the plan.
  body text not null,
  created_at timestamptz not null default clock_timestamp()
);
create index plans_by_name on runledger.plans (plan_id, created_at);

-- Every lease has a number of its own, so that a row which went and came back cannot be mistaken for its predecessor.
create sequence runledger.fences cache 1;

-- One row per unit that somebody must take up: s:step@attempt, i:step@attempt/index, e:step@attempt (the end of a loop),
-- w:entity (a wait), g: (the end of the grace after a cancellation), x:type:id (a signal for child runs).
create table runledger.work (
  run_key bigint not null,
  unit text not null,
  tenant_id text not null,
  -- Who schedules the run; workers of other engines leave it alone.
  engine text not null,
  -- From when on anybody may take it: its due time, or the end of the lease that lease_owner has. One column for both, so
  -- that one index finds what is due and what was abandoned.
  available_at timestamptz not null,
  lease_owner text,
  fence bigint not null default 0,
  deliveries integer not null default 0,
  -- The run is paused: not handed out.
  held boolean not null default false,
  -- Whoever holds it is asked to stop.
  stop boolean not null default false,
  last_error text,
  primary key (run_key, unit)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
create index work_by_time on runledger.work (engine, available_at) where not held;

-- The counters of a loop under way. Iterations end on many workers at once, and none of them decides: this row hands out the
-- next index and tells exactly one of them that it was the last.
create table runledger.loops (
  run_key bigint not null,
  -- stepId@attempt
  step text not null,
  next_index integer not null,
  total integer not null,
  in_flight integer not null,
  max_in_flight integer not null,
  -- Indexes that an earlier run has finished.
  skipped integer[] not null,
  stopped boolean not null default false,
  primary key (run_key, step)
) with (fillfactor = 50);

-- Derived from the effect events in the transaction that stores them; the log wins.
create table runledger.receipts (
  tenant_id text not null,
  effect_key text not null,
  run_key bigint not null,
  path text not null,
  status text not null check (status in ('attempted', 'succeeded', 'failed', 'unknown')),
  -- After this time the call can no longer be under way.
  settled_by timestamptz,
  details text not null,
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, effect_key)
);
create index receipts_by_run on runledger.receipts (run_key, path);

-- Processes that take work. Whoever runs on the same machine can see that one of them is dead, and need not wait for the end of
-- its leases.
create table runledger.workers (
  owner text primary key,
  -- The machine, its boot and the namespace in which the process id of the owner counts.
  host_tag text not null,
  seen_at timestamptz not null default clock_timestamp()
);

-- Takes up to `max_rows` units of one engine that are due or whose lease ended: of anybody, of one tenant or project, or (`of_runs`)
-- only of these runs and of the children that they have under way. Candidates are chosen in one place, so that caps and a fair order of
-- tenants can be put there.
create function runledger.claim_work(owner text, ttl_ms integer, max_rows integer, of_engine text, of_runs text[], of_tenant text, of_project text)
  returns table (run_key bigint, run_id text, tenant_id text, project_id text, environment_id text, plan_id text, plan_version text,
    unit text, fence bigint, deliveries integer, stop boolean)
  language plpgsql security definer set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  -- A clock that may go on while the statement runs bounds no index: everything that waits would be read.
  at constant timestamptz := clock_timestamp();
  taken tid[]; family bigint[];
begin
  -- Written so that no plan, made while there was nothing, can read whole tables: EXISTS could become a table of all that there is.
  if of_runs is null then
    select array_agg(c.ctid) into taken from (
      select w.ctid from runledger.work w where not w.held and w.engine = of_engine and w.available_at <= at
         and (of_tenant is null or w.tenant_id = of_tenant)
         and (of_project is null or of_project = (select r.project_id from runledger.runs r where r.run_key = w.run_key))
       order by w.available_at limit max_rows for update skip locked) c;
  else
    -- A child that has ended counts as long as something of it is to be done, such as a signal for its own children.
    with recursive f as (
      select r.run_key, r.run_id from runledger.runs r where r.run_id = any(of_runs)
      union all
      select x.run_key, x.run_id from f, lateral (
        select r.run_key, r.run_id from runledger.runs r where r.parent_run_id = f.run_id
           and (r.status not in (16, 32, 64) or (select w.run_key from runledger.work w where w.run_key = r.run_key limit 1) is not null)
        offset 0) x)
    select array_agg(f.run_key) into family from f;
    select array_agg(c.ctid) into taken from (
      select x.ctid from unnest(family) f(key), lateral (
        select w.ctid from runledger.work w where w.run_key = f.key and not w.held and w.engine = of_engine and w.available_at <= at
         order by w.run_key, w.unit limit max_rows for update skip locked) x
       limit max_rows) c;
  end if;
  if taken is null then return; end if;
  return query
    with leased as (
      update runledger.work w set lease_owner = owner, fence = nextval('runledger.fences'), deliveries = w.deliveries + 1,
          available_at = clock_timestamp() + ttl_ms * interval '1 millisecond'
       where w.ctid = any(taken)
      returning w.run_key, w.unit, w.fence, w.deliveries, w.stop)
    select l.run_key, r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version, l.unit, l.fence, l.deliveries, l.stop
      from leased l, lateral (select x.run_id, x.tenant_id, x.project_id, x.environment_id, x.plan_id, x.plan_version
                                from runledger.runs x where x.run_key = l.run_key limit 1) r;
end $$;

-- Takes one unit by its name, for an engine that schedules by itself. No row: the log no longer asks for it. Without a fence it
-- cannot be taken now: the run is paused, or it is not due before `wait_ms`, be it for its time or for another's lease.
create function runledger.claim_unit(of_run text, of_unit text, owner text, ttl_ms integer)
  returns table (run_key bigint, tenant_id text, fence bigint, deliveries integer, stop boolean, held boolean, leased boolean, wait_ms integer)
  language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  found_key constant bigint := (select r.run_key from runledger.runs r where r.run_id = of_run);
  at constant timestamptz := clock_timestamp();
  row runledger.work;
begin
  select * into row from runledger.work w where w.run_key = found_key and w.unit = of_unit for update;
  if not found then return; end if;
  if row.held or row.available_at > at then
    return query select row.run_key, row.tenant_id, null::bigint, row.deliveries, row.stop, row.held, row.lease_owner is not null,
      least(ceil(extract(epoch from row.available_at - at) * 1000), 2000000000)::integer;
    return;
  end if;
  return query update runledger.work w set lease_owner = owner, fence = nextval('runledger.fences'), deliveries = w.deliveries + 1,
      available_at = clock_timestamp() + ttl_ms * interval '1 millisecond'
    where w.run_key = found_key and w.unit = of_unit
    returning w.run_key, w.tenant_id, w.fence, w.deliveries, w.stop, false, true, 0;
end $$;

-- Extends leases. Rows that another transaction has at this moment are left alone and answered as they are: whoever asks
-- comes again long before the lease ends. Without a row in the answer the lease is lost.
create function runledger.renew_work(w_run bigint[], w_unit text[], w_fence bigint[], ttl_ms integer)
  returns table (ord integer, stop boolean)
  language plpgsql security definer set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  mine tid[];
begin
  select array_agg(x.ctid) into mine from unnest(w_run, w_unit, w_fence) u(run, unit, fence),
    lateral (select w.ctid from runledger.work w where w.run_key = u.run and w.unit = u.unit and w.fence = u.fence
              limit 1 for update skip locked) x;
  update runledger.work w set available_at = clock_timestamp() + ttl_ms * interval '1 millisecond' where w.ctid = any(mine);
  return query select u.ord::integer, x.stop from unnest(w_run, w_unit, w_fence) with ordinality u(run, unit, fence, ord),
    lateral (select w.stop from runledger.work w where w.run_key = u.run and w.unit = u.unit and w.fence = u.fence limit 1) x;
end $$;

-- Gives leases back: anybody may take the unit after `delay_ms`.
create function runledger.release_work(w_run bigint[], w_unit text[], w_fence bigint[], delay_ms integer, error text) returns void
  language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
begin
  for i in 1 .. coalesce(array_length(w_run, 1), 0) loop
    update runledger.work set lease_owner = null, fence = 0, last_error = coalesce(error, last_error),
        available_at = clock_timestamp() + delay_ms * interval '1 millisecond'
     where run_key = w_run[i] and unit = w_unit[i] and fence = w_fence[i];
  end loop;
end $$;

-- Says that a worker lives. The answer is who else was here on the same host.
create function runledger.check_in(me text, tag text) returns setof text
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into runledger.workers as x (owner, host_tag) values (me, tag)
    on conflict (owner) do update set seen_at = clock_timestamp() where x.seen_at < clock_timestamp() - interval '1 second';
  -- Of another host nobody here can say that it is dead. Its leases ended long ago.
  delete from runledger.workers x where x.seen_at < clock_timestamp() - interval '1 day';
  return query select x.owner from runledger.workers x where x.host_tag = tag and x.owner <> me;
end $$;

-- Hands back the leases of workers that are dead, or that stop. Rows that somebody has at this moment are left for the next time. The
-- answer is how many rows are free now.
create function runledger.release_owners(owners text[]) returns integer
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  freed integer;
begin
  update runledger.work w set lease_owner = null, fence = 0, available_at = clock_timestamp()
   where w.ctid = any(array(select x.ctid from runledger.work x where x.lease_owner = any(owners) for update skip locked));
  get diagnostics freed = row_count;
  delete from runledger.workers x where x.owner = any(owners)
     and not exists (select from runledger.work w where w.lease_owner = x.owner);
  return freed;
end $$;

-- Gives the holder of a lease another one, so that whatever it sent under the old one can no longer be stored. Null: the unit
-- has ended, or is somebody else's.
create function runledger.burn_work(of_run bigint, of_unit text, of_fence bigint, ttl_ms integer) returns bigint
  language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  f bigint;
begin
  update runledger.work set fence = nextval('runledger.fences'), available_at = clock_timestamp() + ttl_ms * interval '1 millisecond'
   where run_key = of_run and unit = of_unit and fence = of_fence returning fence into f;
  return f;
end $$;

-- Removes a unit that the log no longer asks for.
create function runledger.discard_work(of_run bigint, of_unit text, of_fence bigint) returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
begin
  delete from runledger.work where run_key = of_run and unit = of_unit and fence = of_fence;
  return found;
end $$;

-- Something that a unit waits for has happened. A unit that somebody holds is left alone; it looks again by itself.
create function runledger.wake_work(of_run text, of_unit text) returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
begin
  update runledger.work w set available_at = clock_timestamp()
   where w.run_key = (select r.run_key from runledger.runs r where r.run_id = of_run) and w.unit = of_unit and w.lease_owner is null;
  return found;
end $$;

-- Keeps a run as it is until the transaction ends: for a decision that must see everything. A role that may only read cannot lock.
create function runledger.lock_run(of_run bigint) returns void
  language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
begin
  perform 1 from runledger.runs r where r.run_key = of_run for update;
end $$;

-- Puts back what the log asks for and no row stands for. The caller has folded the log up to `at_seq`; if it has grown
-- since, nothing is done and the answer is null.
create function runledger.repair_work(of_run bigint, at_seq bigint, units text[], dues text[], held_units boolean[], taken_before integer[],
    l_step text[], l_next integer[], l_total integer[], l_flight integer[], l_max integer[], l_stopped boolean[], l_skip text[]) returns integer
  language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  run_tenant text; run_engine text; seq bigint; added integer;
begin
  select r.tenant_id, r.engine, r.last_seq into run_tenant, run_engine, seq from runledger.runs r where r.run_key = of_run for update;
  if seq is distinct from at_seq then return null; end if;
  insert into runledger.work (run_key, unit, tenant_id, engine, available_at, held, deliveries)
    select of_run, u.unit, run_tenant, run_engine, coalesce(u.due::timestamptz, clock_timestamp()), u.held, u.taken
      from unnest(units, dues, held_units, taken_before) u(unit, due, held, taken)
    on conflict do nothing;
  get diagnostics added = row_count;
  insert into runledger.loops (run_key, step, next_index, total, in_flight, max_in_flight, skipped, stopped)
    select of_run, l.step, l.next, l.total, l.flight, l.most, l.skip::integer[], l.stopped
      from unnest(l_step, l_next, l_total, l_flight, l_max, l_stopped, l_skip) l(step, next, total, flight, most, stopped, skip)
    on conflict do nothing;
  return added;
end $$;

-- Appends decisions and facts, and changes the work that follows from them, for many runs in one transaction. Order of checks
-- per call: duplicates, fence, receipt, head, transition. Answers beyond those of append_core: 5 the lease is lost, 6 the effect
-- has a receipt already. A call all of whose events were stored before changes no work.
-- Operations on work: 0 check the fence only, 1 delete, 2 insert, 3 hold all of the run, 4 let go all of the run, 5 delete all of the
-- run, 6 ask all holders to stop. Where a unit is inserted w_fence says how often it was taken before. On receipts: 1 attempted, 2 succeeded, 3 failed, 4 unknown. On loops: 1 begin, 2 an iteration ended.
create function runledger.commit_work(
  c_run bigint[], c_count integer[], c_expect bigint[],
  s_run bigint[], s_path text[], s_attempt integer[], step_types smallint[],
  e_run bigint[], e_type smallint[], e_path text[], e_engine integer[], e_logical integer[], e_emitted text[], e_from integer[], e_length integer[],
  e_rule integer[], e_slot integer[], e_prior integer[], e_bytes bytea,
  c_owner text[], c_tenant text[], c_ttl integer[],
  w_call integer[], w_op smallint[], w_unit text[], w_fence bigint[], w_due text[], w_lease boolean[],
  r_call integer[], r_op smallint[], r_key text[], r_path text[], r_settled text[], r_details text[],
  l_call integer[], l_op smallint[], l_step text[], l_next integer[], l_total integer[], l_flight integer[], l_max integer[], l_flag boolean[], l_skip text[],
  -- Nothing was stored before and nothing is refused: whatever says otherwise ends the transaction, and the caller asks again without.
  assume_new boolean,
  out seqs bigint[], out us bigint, out other_us bigint[], out fresh boolean[], out answers integer[], out infos bigint[],
  -- The lease of every inserted unit, in the order of the operations; units handed out of loops as call:fence:unit.
  out fences bigint[], out handouts text[]
) language plpgsql security definer set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  calls constant integer := array_length(c_run, 1);
  ops constant integer := coalesce(array_length(w_call, 1), 0);
  expects bigint[] := c_expect;
  gone tid[]; lost integer[]; taken integer[]; applied boolean[];
  now_at timestamptz; a integer := 1; z integer; is_new boolean;
  lo record; st smallint; leased boolean; f bigint;
begin
  perform 1 from (select 1 from runledger.runs r where r.run_key = any(c_run) order by r.run_key for update) l;
  if ops > 0 then
    select array_agg(x.ctid) filter (where o.op = 1 and x.ctid is not null), array_agg(o.call) filter (where o.op < 2 and o.fence is not null and x.fence is distinct from o.fence)
      into gone, lost
      from unnest(w_call, w_op, w_unit, w_fence) o(call, op, unit, fence)
      left join lateral (select w.ctid, w.fence from runledger.work w
                          where w.run_key = c_run[o.call] and w.unit = o.unit and o.op < 2 limit 1 for update) x on true;
  end if;
  if array_length(r_call, 1) > 0 then
    -- Somebody else's effect under the same key. A definite failure may be tried again, and so may the same place.
    select array_agg(o.call) into taken from unnest(r_call, r_op, r_key, r_path) o(call, op, key, path),
      lateral (select x.status, x.run_key, x.path from runledger.receipts x where x.tenant_id = c_tenant[o.call] and x.effect_key = o.key limit 1 for update) r
     where o.op = 1 and r.status <> 'failed' and (r.run_key <> c_run[o.call] or r.path <> o.path);
  end if;
  if lost is not null or taken is not null then
    if assume_new then raise exception 'a refusal needs a look for duplicates' using errcode = 'RL003'; end if;
    -- Nobody's head: such a call passes only if all of its events are there already.
    if coalesce(array_length(expects, 1), 0) = 0 then expects := array_fill(null::bigint, array[calls]); end if;
    for i in 1 .. coalesce(array_length(lost, 1), 0) loop expects[lost[i]] := -1; end loop;
    for i in 1 .. coalesce(array_length(taken, 1), 0) loop expects[taken[i]] := -1; end loop;
  end if;
  select x.seqs, x.us, x.other_us, x.fresh, x.answers, x.infos into seqs, us, other_us, fresh, answers, infos
    from runledger.append_core(c_run, c_count, expects, s_run, s_path, s_attempt, step_types, e_run, e_type, e_path, e_engine, e_logical,
      e_emitted, e_from, e_length, e_rule, e_slot, e_prior, e_bytes, assume_new) x;
  now_at := clock_timestamp();
  if assume_new then applied := array_fill(true, array[calls]); end if;
  for c in 1 .. case when assume_new then 0 else calls end loop
    z := a + c_count[c] - 1;
    if answers[c] > 0 then
      applied[c] := false;
      if answers[c] = 2 and c = any(lost) then answers[c] := 5;
      elsif answers[c] = 2 and c = any(taken) then answers[c] := 6; end if;
    else
      is_new := false;
      for i in a .. z loop
        if fresh[i] is not false then is_new := true; exit; end if;
      end loop;
      applied[c] := is_new;
    end if;
    a := z + 1;
  end loop;
  if ops > 0 then
    if gone is not null then
      -- The rows are locked, so that their places stand; those of refused calls are kept.
      if false = any(applied) then
        delete from runledger.work w where w.ctid = any(array(
          select x.ctid from unnest(w_call, w_op, w_unit) o(call, op, unit),
            lateral (select w2.ctid from runledger.work w2 where w2.run_key = c_run[o.call] and w2.unit = o.unit limit 1) x
           where o.op = 1 and applied[o.call]));
      else
        delete from runledger.work w where w.ctid = any(gone);
      end if;
    end if;
    select array_agg(case when o.op = 2 and o.lease and applied[o.call] then nextval('runledger.fences') end) into fences
      from unnest(w_call, w_op, w_lease) o(call, op, lease);
    insert into runledger.work (run_key, unit, tenant_id, engine, available_at, lease_owner, fence, deliveries, held)
      select c_run[o.call], o.unit, c_tenant[o.call], (select r.engine from runledger.runs r where r.run_key = c_run[o.call]),
             case when o.lease then now_at + c_ttl[o.call] * interval '1 millisecond' else coalesce(o.due::timestamptz, now_at) end,
             case when o.lease then c_owner[o.call] end, coalesce(o.fence, 0), coalesce(o.taken, 0) + case when o.lease then 1 else 0 end, o.lease is null
        from unnest(w_call, w_op, w_unit, fences, w_due, w_lease, w_fence) o(call, op, unit, fence, due, lease, taken)
       where o.op = 2 and applied[o.call]
      on conflict do nothing;
    for i in 1 .. ops loop
      if w_op[i] > 2 and applied[w_call[i]] then
        if w_op[i] = 3 then
          update runledger.work set held = true where run_key = c_run[w_call[i]] and left(unit, 2) in ('s:', 'i:', 'e:');
        elsif w_op[i] = 4 then
          update runledger.work set held = false where run_key = c_run[w_call[i]];
          for lo in select * from runledger.loops x where x.run_key = c_run[w_call[i]] and not x.stopped for update loop
            perform runledger.fill_loop(lo.run_key, lo.step, c_tenant[w_call[i]], null, 0, now_at);
          end loop;
        elsif w_op[i] = 5 then
          delete from runledger.work where run_key = c_run[w_call[i]] and left(unit, 2) <> 'x:';
          delete from runledger.loops where run_key = c_run[w_call[i]];
        else
          update runledger.work set stop = true where run_key = c_run[w_call[i]];
          update runledger.loops set stopped = true where run_key = c_run[w_call[i]];
        end if;
      end if;
    end loop;
  end if;
  for i in 1 .. coalesce(array_length(r_call, 1), 0) loop
    if not applied[r_call[i]] then continue; end if;
    insert into runledger.receipts as x (tenant_id, effect_key, run_key, path, status, settled_by, details)
      values (c_tenant[r_call[i]], r_key[i], c_run[r_call[i]], r_path[i],
        case r_op[i] when 1 then 'attempted' when 2 then 'succeeded' when 3 then 'failed' else 'unknown' end, r_settled[i]::timestamptz, r_details[i])
      on conflict (tenant_id, effect_key) do update set run_key = excluded.run_key, path = excluded.path, status = excluded.status,
        settled_by = coalesce(excluded.settled_by, x.settled_by), details = excluded.details, updated_at = clock_timestamp()
      -- What succeeded stays so: a late answer of an abandoned call does not take it back.
      where x.status <> 'succeeded' and (r_op[i] <> 1 or x.status = 'failed' or (x.run_key = excluded.run_key and x.path = excluded.path));
    if not found and r_op[i] = 1 then
      -- Another call of this batch, or of a transaction that has just ended, was first. Asked again, this one is refused.
      raise exception 'the effect was attempted at the same moment' using errcode = 'RL003';
    end if;
  end loop;
  if array_length(l_call, 1) > 0 then
    insert into runledger.loops (run_key, step, next_index, total, in_flight, max_in_flight, skipped)
      select c_run[o.call], o.step, o.next, o.total, o.flight, o.most, o.skip::integer[]
        from unnest(l_call, l_op, l_step, l_next, l_total, l_flight, l_max, l_skip) o(call, op, step, next, total, flight, most, skip)
       where o.op = 1 and applied[o.call] on conflict do nothing;
    -- Iterations of one loop that end together are one change of its row, so that a full batch holds it up no longer than a small one.
    for lo in
      select c_run[o.call] as run_key, o.step, c_owner[o.call] as owner, c_tenant[o.call] as tenant, c_ttl[o.call] as ttl,
             count(*)::integer as ended, bool_or(o.flag) as stop, array_agg(o.call) as calls
        from unnest(l_call, l_op, l_step, l_flag) o(call, op, step, flag)
       where o.op = 2 and applied[o.call] group by 1, 2, 3, 4, 5
    loop
      update runledger.loops set in_flight = in_flight - lo.ended, stopped = stopped or lo.stop
       where run_key = lo.run_key and step = lo.step;
      -- Each of them goes on with one unit; what is left goes to the last.
      handouts := handouts || array(select lo.calls[least(h.ord, lo.ended)] || ':' || h.unit from unnest(
        runledger.fill_loop(lo.run_key, lo.step, lo.tenant, lo.owner, lo.ttl, now_at)) with ordinality h(unit, ord));
    end loop;
  end if;
end $$;

-- Hands out the iterations that there is room for, or the end of the loop, as fence:unit. With an owner they come leased to it,
-- without one the fence is 0.
create function runledger.fill_loop(of_run bigint, of_step text, of_tenant text, owner text, ttl_ms integer, now_at timestamptz) returns text[]
  language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  lo runledger.loops; st smallint; run_engine text; units text[] := '{}'; out_units text[];
begin
  select * into lo from runledger.loops where run_key = of_run and step = of_step;
  if not found then return units; end if;
  select status, engine into st, run_engine from runledger.runs where run_key = of_run;
  -- Only a run that is RUNNING hands out anything.
  if st = 4 then
    while not lo.stopped and lo.in_flight < lo.max_in_flight and lo.next_index < lo.total loop
      if lo.next_index = any(lo.skipped) then
        lo.next_index := lo.next_index + 1;
        continue;
      end if;
      units := units || ('i:' || of_step || '/' || lo.next_index);
      lo.in_flight := lo.in_flight + 1;
      lo.next_index := lo.next_index + 1;
    end loop;
  end if;
  if lo.in_flight = 0 and (lo.stopped or lo.next_index >= lo.total) then units := units || ('e:' || of_step); end if;
  update runledger.loops set next_index = lo.next_index, in_flight = lo.in_flight where run_key = of_run and step = of_step;
  if units = '{}' then return units; end if;
  with added as (
    insert into runledger.work (run_key, unit, tenant_id, engine, available_at, lease_owner, fence, deliveries, held)
      select of_run, u.unit, of_tenant, run_engine, case when owner is null then now_at else now_at + ttl_ms * interval '1 millisecond' end,
             owner, case when owner is null then 0 else nextval('runledger.fences') end, case when owner is null then 0 else 1 end, st = 8
        from unnest(units) u(unit)
      on conflict do nothing
      returning work.unit, work.fence)
  select array_agg(added.fence || ':' || added.unit) into out_units from added;
  return coalesce(out_units, '{}');
end $$;

-- Creates runs with their first events and their first work in one transaction.
create function runledger.start_runs(
  n_id text[], n_tenant text[], n_project text[], n_environment text[], n_plan text[], n_version text[],
  n_request text[], n_trigger text[], n_trigger_type text[], n_trigger_ref text[], n_parent text[], n_retry text[], n_engine text[],
  c_index integer[], c_count integer[],
  e_type smallint[], e_path text[], e_engine integer[], e_logical integer[], e_emitted text[], e_from integer[], e_length integer[],
  e_rule integer[], e_slot integer[], e_prior integer[], e_bytes bytea,
  w_index integer[], w_unit text[], w_due text[], w_owner text[], w_ttl integer[],
  out run_keys bigint[], out run_ids text[], out created boolean[],
  out seqs bigint[], out us bigint, out other_us bigint[], out fresh boolean[], out answers integer[], out infos bigint[], out fences bigint[]
) language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
begin
  select x.run_keys, x.run_ids, x.created, x.seqs, x.us, x.other_us, x.fresh, x.answers, x.infos
    into run_keys, run_ids, created, seqs, us, other_us, fresh, answers, infos
    from runledger.create_runs(n_id, n_tenant, n_project, n_environment, n_plan, n_version, n_request, n_trigger, n_trigger_type,
      n_trigger_ref, n_parent, n_retry, n_engine, c_index, c_count, e_type, e_path, e_engine, e_logical, e_emitted, e_from, e_length,
      e_rule, e_slot, e_prior, e_bytes) x;
  select array_agg(case when o.owner is not null and created[o.run] then nextval('runledger.fences') end) into fences
    from unnest(w_index, w_owner) o(run, owner);
  insert into runledger.work (run_key, unit, tenant_id, engine, available_at, lease_owner, fence, deliveries)
    select run_keys[o.run], o.unit, n_tenant[o.run], n_engine[o.run],
           case when o.owner is not null then clock_timestamp() + o.ttl * interval '1 millisecond' else coalesce(o.due::timestamptz, clock_timestamp()) end,
           o.owner, coalesce(o.fence, 0), case when o.owner is not null then 1 else 0 end
      from unnest(w_index, w_unit, w_due, w_owner, w_ttl, fences) o(run, unit, due, owner, ttl, fence)
     -- A run whose first events were refused was not created.
     where created[o.run] and exists (select from runledger.runs r where r.run_key = run_keys[o.run]);
end $$;

revoke all on function runledger.claim_work, runledger.claim_unit, runledger.renew_work, runledger.release_work, runledger.discard_work, runledger.burn_work, runledger.wake_work,
  runledger.lock_run, runledger.repair_work, runledger.commit_work, runledger.fill_loop, runledger.start_runs, runledger.check_in, runledger.release_owners from public;

-- What the log takes, and what belongs to work.
alter function runledger.grant_use(name) rename to grant_log_use;
create function runledger.grant_use(to_role name) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform runledger.grant_log_use(to_role);
  execute format('grant insert on runledger.plans to %I', to_role);
  execute format('grant execute on function runledger.claim_work, runledger.claim_unit, runledger.renew_work, runledger.release_work,
    runledger.discard_work, runledger.burn_work, runledger.wake_work, runledger.lock_run, runledger.repair_work, runledger.commit_work, runledger.start_runs,
    runledger.check_in, runledger.release_owners to %I', to_role);
end $$;
revoke all on function runledger.grant_use from public;

-- The functions of this file run with the rights of the schema's owner, so that the application's role needs none to write
-- the tables of the log itself: what is in the log came through here. The search path is fixed, lest a caller's own
-- operators be run with those rights.

-- Extends the chains of many runs in one transaction. Calls are in order; each has an answer of its own, and a refused
-- call leaves nothing behind. Order of checks: duplicates, head, transition. The rule of an event is packed by the
-- caller from the event catalogue: bits 0-7 run statuses that allow it, 8-15 the status it gives (0 = none),
-- 16-20 step facts that must be stored for its attempt, 21-25 those that must not, 26-28 the fact it is (1-5, 0 = none),
-- 29 whether decisions must see it. `e_bytes` holds 96 bytes per event (id 16, key 32, salt 16, record hash 32) and behind them
-- the payloads, each at `e_from` with `e_length` bytes (-1 = none): as array elements they would be escaped and parsed.
create function runledger.append_core(
  c_run bigint[], c_count integer[], c_expect bigint[],
  s_run bigint[], s_path text[], s_attempt integer[], step_types smallint[],
  e_run bigint[], e_type smallint[], e_path text[], e_engine integer[], e_logical integer[], e_emitted text[], e_from integer[], e_length integer[],
  e_rule integer[], e_slot integer[], e_prior integer[], e_bytes bytea,
  -- Duplicates are rare: without looking for them first, one is found by the unique index and the caller asks again.
  assume_new boolean default false,
  -- The sequence of every event, null where it was refused; the store time of those that have another than `us`;
  -- false where an event was stored before (null means new); the answer to every call (null means accepted) and what it is about.
  out seqs bigint[], out us bigint, out other_us bigint[], out fresh boolean[], out answers integer[], out infos bigint[]
-- A plan made anew for every call would cost more than the call, so it is made once per connection, perhaps while the
-- tables are empty. Without sorts and full scans, and with the conditions written so that one index alone gives the order
-- they ask for, it is the right plan for any size.
) language plpgsql security definer set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off as $$
declare
  n constant integer := array_length(e_run, 1);
  calls constant integer := array_length(c_run, 1);
  has_priors constant boolean := array_length(e_prior, 1) > 0;
  r_key bigint[]; r_seq bigint[]; r_decided bigint[]; r_status smallint[]; r_head bytea[];
  r_at timestamptz[]; r_era integer[]; r_xid bigint[];
  -- An array that begins with its third element would be read from its first: all of these begin at one.
  chains bytea[] := array[null]; other_at timestamptz[] := array[null]; other_xid bigint[] := array[null];
  stored bigint[]; stored_at timestamptz[]; has_stored boolean; masks integer[];
  now_at timestamptz; now_xid bigint; now_era integer; us_bytes bytea;
  run_us bigint; run_xid bigint;
  special boolean; latest_at timestamptz; latest_xid bigint;
  r integer := 0; a integer := 1; z integer; refused integer; prior integer;
  rule integer; answer integer; st integer; mask integer; new_ones integer;
  head bytea; seq bigint; decided bigint;
begin
  seqs := array[null]; other_us := array[null]; fresh := array[null]; answers := array[null]; infos := array[null];
  -- Locks first, in a statement of their own and in key order: a duplicate check in the same statement would read a
  -- snapshot older than the lock.
  select array_agg(l.run_key), array_agg(l.last_seq), array_agg(l.decided_seq), array_agg(l.status), array_agg(l.chain_head),
         array_agg(l.last_persisted_at), array_agg(l.stream_era), array_agg(l.stream_xid),
         max(l.last_persisted_at), max(l.stream_xid)
    into r_key, r_seq, r_decided, r_status, r_head, r_at, r_era, r_xid, latest_at, latest_xid
    from (select run_key, last_seq, decided_seq, status, chain_head, last_persisted_at, stream_era, stream_xid
            from runledger.runs where run_key = any(c_run) order by run_key for no key update) l;
  -- The clock is read after the locks, so that time never runs backwards within a run.
  now_at := clock_timestamp();
  us := (extract(epoch from now_at) * 1000000)::bigint;
  us_bytes := int8send(us);
  now_xid := pg_current_xact_id()::text::bigint;
  select era into now_era from runledger.stream_state;

  has_stored := not assume_new and exists (
    select from unnest(e_run) with ordinality u(run, ord),
      lateral (select substring(e_bytes from (u.ord::integer - 1) * 96 + 17 for 32)) k(key),
      lateral (
        select x.idempotency_key as key from runledger.run_events x
         where x.run_key = u.run and x.idempotency_key >= k.key order by x.idempotency_key limit 1) d
     where d.key = k.key);
  if has_stored then
    select array_agg(case when d.key = k.key then d.run_seq end), array_agg(case when d.key = k.key then d.persisted_at end)
      into stored, stored_at
      from unnest(e_run) with ordinality u(run, ord)
      cross join lateral (select substring(e_bytes from (u.ord::integer - 1) * 96 + 17 for 32)) k(key)
      left join lateral (
        select x.idempotency_key as key, x.run_seq, x.persisted_at from runledger.run_events x
         where x.run_key = u.run and x.idempotency_key >= k.key order by x.idempotency_key limit 1) d on true;
  end if;
  if array_length(s_run, 1) > 0 then
    select array_agg(f.mask) into masks
      from unnest(s_run, s_path, s_attempt) with ordinality s(run, path, attempt, ord)
      cross join lateral (
        select coalesce(bit_or(1 << (t.ord::integer - 1)), 0) as mask
          from unnest(step_types) with ordinality t(type, ord), lateral (
            select e.logical_attempt as attempt from runledger.run_events e
             where e.run_key = s.run and e.type = t.type and e.path = s.path and e.logical_attempt >= s.attempt
             order by e.logical_attempt limit 1) x
         where x.attempt = s.attempt) f;
  end if;
  -- Most batches hold nothing special; the checks for what is rare are then left out of the loop.
  special := has_stored or has_priors or array_length(c_expect, 1) > 0
    or latest_at >= now_at or latest_xid > now_xid;

  for c in 1 .. calls loop
    z := a + c_count[c] - 1;
    -- Callers sort by run, so that the next one is nearly always right.
    if r = 0 or r_key[r] <> c_run[c] then
      r := r + 1;
      if r_key[r] is distinct from c_run[c] then r := coalesce(array_position(r_key, c_run[c]), 0); end if;
    end if;
    answer := 0;
    if special or r = 0 then
      new_ones := 0;
      run_us := us;
      run_xid := now_xid;
      if r = 0 then
        answer := 1; infos[c] := 0; refused := a;
      else
        if r_at[r] >= now_at then run_us := (extract(epoch from r_at[r]) * 1000000)::bigint; end if;
        if r_xid[r] > now_xid and r_era[r] = now_era then run_xid := r_xid[r]; end if;
        for i in a .. z loop
          if stored[i] is not null then
            seqs[i] := stored[i]; fresh[i] := false; other_us[i] := (extract(epoch from stored_at[i]) * 1000000)::bigint;
          else
            -- The same event in an earlier call of the batch, unless that call was refused: then one before it may count.
            prior := e_prior[i];
            while prior > 0 and prior < a and seqs[prior] is null loop prior := e_prior[prior]; end loop;
            if prior > 0 and seqs[prior] is not null then
              seqs[i] := seqs[prior]; fresh[i] := false; other_us[i] := coalesce(other_us[prior], us);
            else
              fresh[i] := true; new_ones := new_ones + 1;
            end if;
          end if;
        end loop;
        if new_ones > 0 and c_expect[c] <> r_decided[r] then
          answer := 2; refused := a; infos[c] := r_decided[r];
        end if;
      end if;
    end if;
    if answer = 0 then
      st := r_status[r]; head := r_head[r]; seq := r_seq[r]; decided := 0;
      for i in a .. z loop
        if special then
          if fresh[i] is false then continue; end if;
          if e_prior[i] >= a then
            -- The same event twice in one call.
            seqs[i] := seqs[e_prior[i]]; fresh[i] := false; other_us[i] := run_us;
            continue;
          end if;
        end if;
        rule := e_rule[i];
        if rule & st = 0 then
          answer := 3; refused := i; infos[c] := (i - a)::bigint * 65536 + st; exit;
        end if;
        if rule & 1006698240 <> 0 then
          if rule & 65280 <> 0 then st := (rule >> 8) & 255; end if;
          if rule & 469762048 <> 0 then
            mask := masks[e_slot[i]];
            if mask & ((rule >> 16) & 31) <> (rule >> 16) & 31 or mask & ((rule >> 21) & 31) <> 0 then
              answer := 4; refused := i; infos[c] := (i - a)::bigint * 65536 + mask; exit;
            end if;
            masks[e_slot[i]] := mask | (1 << (((rule >> 26) & 7) - 1));
          end if;
          if rule & 536870912 <> 0 then decided := seq + 1; end if;
        end if;
        seq := seq + 1;
        if special and (run_us <> us or run_xid <> now_xid) then
          head := sha256(head || substring(e_bytes from i * 96 - 31 for 32) || int8send(seq) || int8send(run_us));
          other_us[i] := run_us; other_at[i] := greatest(r_at[r], now_at); other_xid[i] := run_xid;
        else
          head := sha256(head || substring(e_bytes from i * 96 - 31 for 32) || int8send(seq) || us_bytes);
        end if;
        seqs[i] := seq; chains[i] := head;
      end loop;
      if answer = 0 then
        r_seq[r] := seq; r_head[r] := head;
        if st <> r_status[r] then r_status[r] := st; end if;
        if decided > 0 then r_decided[r] := decided; end if;
      end if;
    end if;
    if answer <> 0 then
      -- It may be refused only because it was stored before.
      if assume_new then raise exception 'a refusal needs a look for duplicates' using errcode = 'RL003'; end if;
      answers[c] := answer;
      for i in a .. z loop
        -- What the accepted part of the call noted about its steps is undone.
        if i < refused and fresh[i] is not false and e_rule[i] & 469762048 <> 0 then
          masks[e_slot[i]] := masks[e_slot[i]] & ~(1 << (((e_rule[i] >> 26) & 7) - 1));
        end if;
        seqs[i] := null; fresh[i] := false;
      end loop;
    end if;
    a := z + 1;
  end loop;

  if r_key is not null then
    insert into runledger.run_events (run_key, run_seq, stream_xid, persisted_at, era, engine_attempt, logical_attempt, type,
        event_id, path, emitted_at, idempotency_key, record_hash, chain_hash, salt, payload)
      select u.run, u.seq, coalesce(u.xid, now_xid), coalesce(u.at, now_at), now_era, coalesce(u.engine, 1), coalesce(u.logical, 1), u.type,
             encode(substring(e_bytes from o for 16), 'hex')::uuid, u.path, u.emitted,
             substring(e_bytes from o + 16 for 32), substring(e_bytes from o + 64 for 32), u.chain,
             substring(e_bytes from o + 48 for 16),
             case when u.length >= 0 then convert_from(substring(e_bytes from u.pos for u.length), 'UTF8') end
        from unnest(e_run, seqs, e_engine, e_logical, e_type, e_path, e_emitted, chains, e_from, e_length, fresh, other_at, other_xid)
             with ordinality u(run, seq, engine, logical, type, path, emitted, chain, pos, length, is_new, at, xid, ord)
             cross join lateral (select (u.ord::integer - 1) * 96 + 1) p(o)
       where u.seq is not null and u.is_new is not false;
    update runledger.runs t
       set last_seq = u.seq, decided_seq = u.decided, status = u.status, chain_head = u.head,
           last_persisted_at = greatest(t.last_persisted_at, now_at), stream_era = now_era,
           stream_xid = case when t.stream_era = now_era then greatest(t.stream_xid, now_xid) else now_xid end
      from unnest(r_key, r_seq, r_decided, r_status, r_head) u(key, seq, decided, status, head)
     where t.run_key = u.key and t.last_seq <> u.seq;
  end if;
end $$;

-- The same for one new event of each run, which is what many producers at once amount to: one statement moves the heads and
-- stores the events. Callers sort by run. Whatever is not plain (an unknown run, a refusal, a clock or a stream behind that of
-- the run) leaves a gap in the keys that come back; then nothing is stored and the caller turns to append_core. So it does
-- with a duplicate, which the unique index finds. The clock is read before the rows are locked, but a run that somebody
-- else has moved meanwhile has a later time, and is such a gap. Without attempts they are 1.
create function runledger.append_singles(
  e_run bigint[], e_rule integer[],
  e_type smallint[], e_path text[], e_engine integer[], e_logical integer[], e_emitted text[],
  e_id uuid[], e_key bytea[], e_salt bytea[], e_record bytea[], e_payload text[],
  out seqs bigint[], out us bigint
) language plpgsql security definer set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  now_at constant timestamptz := clock_timestamp();
  now_xid constant bigint := pg_current_xact_id()::text::bigint;
  us_bytes bytea;
  keys bigint[];
begin
  us := (extract(epoch from now_at) * 1000000)::bigint;
  us_bytes := int8send(us);
  with moved as (
    update runledger.runs t
       set last_seq = t.last_seq + 1,
           decided_seq = case when e.rule & 536870912 <> 0 then t.last_seq + 1 else t.decided_seq end,
           status = case when e.rule & 65280 <> 0 then (e.rule >> 8) & 255 else t.status end,
           chain_head = sha256(t.chain_head || e.record || int8send(t.last_seq + 1) || us_bytes),
           last_persisted_at = now_at, stream_era = (select era from runledger.stream_state), stream_xid = now_xid
      from unnest(e_run, e_type, e_path, e_engine, e_logical, e_emitted, e_rule, e_id, e_key, e_salt, e_record, e_payload)
           e(run, type, path, engine, logical, emitted, rule, id, key, salt, record, payload)
     where t.run_key = e.run and e.rule & t.status <> 0 and t.last_persisted_at < now_at and t.stream_xid <= now_xid
    returning t.run_key, t.last_seq, t.stream_era, t.chain_head, e.*),
  added as (
    insert into runledger.run_events (run_key, run_seq, stream_xid, persisted_at, era, engine_attempt, logical_attempt, type,
        event_id, path, emitted_at, idempotency_key, record_hash, chain_hash, salt, payload)
      select m.run_key, m.last_seq, now_xid, now_at, m.stream_era, coalesce(m.engine, 1), coalesce(m.logical, 1), m.type,
             m.id, m.path, m.emitted, m.key, m.record, m.chain_head, m.salt, m.payload
        from moved m
      returning run_key, run_seq)
  select array_agg(run_key), array_agg(run_seq) into keys, seqs from added;
  if keys is distinct from e_run then raise exception 'a batch that is not plain' using errcode = 'RL003'; end if;
end $$;

-- The same for a lone event, in as few statements as possible: starting one costs more than its work. The answer is that
-- of append_core; `fresh` is false where the event was stored before.
create function runledger.append_one(
  of_run bigint, of_type smallint, of_path text, of_engine integer, of_logical integer, of_emitted text, of_payload text,
  rule integer, step_types smallint[], expect bigint, fixed bytea,
  out seq bigint, out us bigint, out fresh boolean, out answer integer, out info bigint
) language plpgsql security definer set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off as $$
declare
  run record;
  mask integer;
begin
  select t.status, t.last_seq, t.decided_seq, t.chain_head, t.last_persisted_at, t.stream_era, t.stream_xid
    into run from runledger.runs t where t.run_key = of_run for no key update;
  if not found then
    answer := 1; info := 0; return;
  end if;
  select x.idempotency_key <> substring(fixed from 17 for 32), x.run_seq, (extract(epoch from x.persisted_at) * 1000000)::bigint
    into fresh, seq, us from runledger.run_events x
   where x.run_key = of_run and x.idempotency_key >= substring(fixed from 17 for 32)
   order by x.idempotency_key limit 1;
  if not fresh then
    return;
  elsif expect <> run.decided_seq then
    answer := 2; info := run.decided_seq; return;
  elsif rule & run.status = 0 then
    answer := 3; info := run.status; return;
  elsif rule & 469762048 <> 0 then
    select coalesce(bit_or(1 << (t.ord::integer - 1)), 0) into mask
      from unnest(step_types) with ordinality t(type, ord), lateral (
        select e.logical_attempt as attempt from runledger.run_events e
         where e.run_key = of_run and e.type = t.type and e.path = of_path and e.logical_attempt >= of_logical
         order by e.logical_attempt limit 1) x
     where x.attempt = of_logical;
    if mask & ((rule >> 16) & 31) <> (rule >> 16) & 31 or mask & ((rule >> 21) & 31) <> 0 then
      answer := 4; info := mask; return;
    end if;
  end if;
  -- The clock is read here, after the lock.
  with now as (
    select s.era, greatest(run.last_persisted_at, clock_timestamp()) as at, pg_current_xact_id()::text::bigint as xid
      from runledger.stream_state s offset 0),
  stamp as (
    select now.era, now.at, (extract(epoch from now.at) * 1000000)::bigint as us,
           case when now.era = run.stream_era then greatest(run.stream_xid, now.xid) else now.xid end as xid from now offset 0),
  added as (
    insert into runledger.run_events (run_key, run_seq, stream_xid, persisted_at, era, engine_attempt, logical_attempt, type,
        event_id, path, emitted_at, idempotency_key, record_hash, chain_hash, salt, payload)
      select of_run, run.last_seq + 1, stamp.xid, stamp.at, stamp.era, of_engine, of_logical, of_type,
             encode(substring(fixed from 1 for 16), 'hex')::uuid, of_path, of_emitted, substring(fixed from 17 for 32),
             substring(fixed from 65 for 32),
             sha256(run.chain_head || substring(fixed from 65 for 32) || int8send(run.last_seq + 1) || int8send(stamp.us)),
             substring(fixed from 49 for 16), of_payload
        from stamp
      returning run_seq, stream_xid, persisted_at, era, chain_hash)
  update runledger.runs t
     set last_seq = added.run_seq, chain_head = added.chain_hash, last_persisted_at = added.persisted_at,
         stream_era = added.era, stream_xid = added.stream_xid,
         decided_seq = case when rule & 536870912 <> 0 then added.run_seq else t.decided_seq end,
         status = case when rule & 65280 <> 0 then (rule >> 8) & 255 else t.status end
    from added where t.run_key = of_run
  returning t.last_seq, (extract(epoch from t.last_persisted_at) * 1000000)::bigint into seq, us;
end $$;

-- Creates runs together with their first events. A run that exists already (by id, request or trigger) is answered with
-- its key and created = false.
create function runledger.create_runs(
  n_id text[], n_tenant text[], n_project text[], n_environment text[], n_plan text[], n_version text[],
  n_request text[], n_trigger text[], n_trigger_type text[], n_trigger_ref text[], n_parent text[], n_retry text[], n_engine text[],
  c_index integer[], c_count integer[],
  e_type smallint[], e_path text[], e_engine integer[], e_logical integer[], e_emitted text[], e_from integer[], e_length integer[],
  e_rule integer[], e_slot integer[], e_prior integer[], e_bytes bytea,
  out run_keys bigint[], out run_ids text[], out created boolean[],
  out seqs bigint[], out us bigint, out other_us bigint[], out fresh boolean[], out answers integer[], out infos bigint[]
) language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  key bigint;
  found_id text;
  c_run bigint[];
  e_run bigint[];
  slots constant integer := coalesce((select max(slot) from unnest(e_slot) slot), 0);
begin
  for i in 1 .. array_length(n_id, 1) loop
    insert into runledger.runs (run_id, tenant_id, project_id, environment_id, plan_id, plan_version, request_key, trigger_key,
        trigger_type, trigger_ref, parent_run_id, retry_of, engine)
      values (n_id[i], n_tenant[i], n_project[i], n_environment[i], n_plan[i], n_version[i], decode(n_request[i], 'hex'),
        decode(n_trigger[i], 'hex'), n_trigger_type[i], n_trigger_ref[i], n_parent[i], n_retry[i], n_engine[i])
      on conflict do nothing returning run_key into key;
    created[i] := key is not null;
    run_ids[i] := n_id[i];
    if key is null then
      -- The id wins over the request, and the request over the trigger.
      select x.run_key, x.run_id into key, found_id from runledger.runs x
       where x.run_id = n_id[i] or x.request_key = decode(n_request[i], 'hex') or x.trigger_key = decode(n_trigger[i], 'hex')
       order by x.run_id = n_id[i] desc, coalesce(x.request_key = decode(n_request[i], 'hex'), false) desc limit 1;
      run_ids[i] := found_id;
    end if;
    run_keys[i] := key;
  end loop;
  -- The next partition is made half a partition ahead, so that no batch meets a missing one.
  perform runledger.ensure_partition(key), runledger.ensure_partition(key + 50000);
  for i in 1 .. coalesce(array_length(c_index, 1), 0) loop
    -- The events of a run that was there before are not appended: they may be those of another run. Key 0 is no run's.
    c_run[i] := case when created[c_index[i]] then run_keys[c_index[i]] else 0 end;
    e_run := e_run || array_fill(c_run[i], array[c_count[i]]);
  end loop;
  if array_length(c_run, 1) > 0 then
    select a.seqs, a.us, a.other_us, a.fresh, a.answers, a.infos into seqs, us, other_us, fresh, answers, infos
      from runledger.append_core(c_run, c_count, array[]::bigint[],
        -- A new run has no steps: slots with no stored facts.
        array_fill(0::bigint, array[slots]), array_fill(''::text, array[slots]), array_fill(0, array[slots]),
        array[]::smallint[], e_run, e_type, e_path, e_engine, e_logical, e_emitted, e_from, e_length, e_rule, e_slot, e_prior, e_bytes) a;
    -- A run whose first events were refused is not created.
    delete from runledger.runs r using unnest(c_run, answers) u(run, answer) where r.run_key = u.run and u.answer > 0;
  end if;
end $$;

-- Erases payloads in the same transaction as the event that says so. All or nothing: a record that was erased before,
-- or does not exist, refuses the call.
create function runledger.erase_payloads(
  of_run bigint, of_seqs bigint[], e_type smallint[], e_path text[], e_engine integer[], e_logical integer[],
  e_emitted text[], e_from integer[], e_length integer[], e_rule integer[], e_slot integer[], e_prior integer[], e_bytes bytea,
  out seqs bigint[], out us bigint, out other_us bigint[], out fresh boolean[], out answers integer[], out infos bigint[], out erased integer
) language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  erased := 0;
  select a.seqs, a.us, a.other_us, a.fresh, a.answers, a.infos into seqs, us, other_us, fresh, answers, infos
    from runledger.append_core(array[of_run], array[1], array[]::bigint[], array[]::bigint[], array[]::text[], array[]::integer[],
      array[]::smallint[], array[of_run], e_type, e_path, e_engine, e_logical, e_emitted, e_from, e_length, e_rule, e_slot, e_prior, e_bytes) a;
  if answers[1] <> 0 or fresh[1] is false then return; end if;
  perform set_config('runledger.erasing', pg_current_xact_id()::text, true);
  update runledger.run_events set payload = null, salt = null
   where run_key = of_run and run_seq = any(of_seqs) and salt is not null;
  get diagnostics erased = row_count;
  perform set_config('runledger.erasing', '', true);
  if erased <> array_length(of_seqs, 1) then
    raise exception 'some of these records were erased before' using errcode = 'RL002';
  end if;
end $$;

-- Called on every new connection. Another history of transaction ids means a restored copy, or a standby that took over,
-- perhaps without the last commits: it begins a new era.
create function runledger.open_session() returns integer
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  current text;
  now_era integer;
begin
  -- A session of a standby would live on when it takes over, in the wrong era: it waits until then, as one does for a start.
  if pg_is_in_recovery() then
    raise exception 'the database is a standby or still recovering' using errcode = '57P03';
  end if;
  current := runledger.xid_history();
  select era into now_era from runledger.stream_state where history = current;
  if now_era is null then
    update runledger.stream_state set era = era + 1, history = current where history <> current;
    select era into now_era from runledger.stream_state;
  end if;
  return now_era;
end $$;

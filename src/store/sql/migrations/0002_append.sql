-- Extends the chains of many runs in one transaction. Calls are in order; each has an answer of its own, and a refused
-- call leaves nothing behind. Order of checks: duplicates, head, transition. The rule of an event is packed by the
-- caller from the event catalogue: bits 0-7 run statuses that allow it, 8-15 the status it gives (0 = none),
-- 16-20 step facts that must be stored for its attempt, 21-25 those that must not, 26-28 the fact it is (1-5, 0 = none),
-- 29 whether decisions must see it.
create function runledger.append_core(
  c_run bigint[], c_count integer[], c_expect bigint[],
  s_run bigint[], s_path text[], s_attempt integer[], step_types smallint[],
  e_type smallint[], e_path text[], e_engine integer[], e_logical integer[], e_emitted text[], e_payload text[],
  e_rule integer[], e_slot integer[], e_prior integer[], e_bytes bytea,
  out seqs bigint[], out micros bigint[], out fresh boolean[], out answers integer[], out infos bigint[]
) language plpgsql as $$
declare
  n constant integer := coalesce(array_length(e_type, 1), 0);
  r_key bigint[]; r_seq bigint[]; r_decided bigint[]; r_status smallint[]; r_head bytea[];
  r_at timestamptz[]; r_us bigint[]; r_era integer[]; r_xid bigint[]; r_touched boolean[];
  e_run bigint[]; e_at timestamptz[]; e_xid bigint[];
  stored bigint[]; stored_at timestamptz[]; masks integer[]; chains bytea[];
  now_at timestamptz; now_us bigint; now_xid bigint; now_era integer;
  r integer; a integer; z integer; refused integer; rule integer; bit integer; new_ones integer; answer integer; st integer;
  head bytea; seq bigint; at timestamptz; us bigint;
begin
  -- Locks first, in a statement of their own and in key order: a duplicate check in the same statement would read a
  -- snapshot older than the lock.
  select array_agg(l.run_key), array_agg(l.last_seq), array_agg(l.decided_seq), array_agg(l.status), array_agg(l.chain_head),
         array_agg(l.last_persisted_at), array_agg(l.stream_era), array_agg(l.stream_xid)
    into r_key, r_seq, r_decided, r_status, r_head, r_at, r_era, r_xid
    from (select * from runledger.runs where run_key = any(c_run) order by run_key for update) l;
  -- The clock is read after the locks, so that time never runs backwards within a run.
  now_at := clock_timestamp();
  now_us := (extract(epoch from now_at) * 1000000)::bigint;
  now_xid := pg_current_xact_id()::text::bigint;
  select era into now_era from runledger.stream_state;

  a := 1;
  for c in 1 .. array_length(c_run, 1) loop
    for i in a .. a + c_count[c] - 1 loop e_run[i] := c_run[c]; end loop;
    a := a + c_count[c];
  end loop;
  if n = 1 then
    select array[x.run_seq], array[x.persisted_at] into stored, stored_at from runledger.run_events x
      where x.run_key = c_run[1] and x.idempotency_key = substring(e_bytes from 17 for 32);
  else
    select array_agg(x.run_seq order by u.ord), array_agg(x.persisted_at order by u.ord) into stored, stored_at
      from unnest(e_run) with ordinality u(run, ord)
      left join runledger.run_events x
        on x.run_key = u.run and x.idempotency_key = substring(e_bytes from (u.ord::integer - 1) * 96 + 17 for 32);
  end if;
  if array_length(s_run, 1) > 0 then
    select array_agg(f.mask order by f.ord) into masks from (
      select s.ord, coalesce(bit_or(1 << (array_position(step_types, x.type) - 1)), 0) as mask
        from unnest(s_run, s_path, s_attempt) with ordinality s(run, path, attempt, ord)
        left join runledger.run_events x
          on x.run_key = s.run and x.path = s.path and x.logical_attempt = s.attempt and x.type = any(step_types)
       group by s.ord) f;
  end if;

  a := 1;
  for c in 1 .. array_length(c_run, 1) loop
    z := a + c_count[c] - 1;
    r := array_position(r_key, c_run[c]);
    if r is null then
      answers[c] := 1; a := z + 1; continue;
    end if;
    new_ones := 0;
    for i in a .. z loop
      if stored[i] is not null then
        seqs[i] := stored[i]; fresh[i] := false;
        micros[i] := (extract(epoch from stored_at[i]) * 1000000)::bigint;
      elsif e_prior[i] > 0 and seqs[e_prior[i]] is not null then
        seqs[i] := seqs[e_prior[i]]; fresh[i] := false; micros[i] := micros[e_prior[i]];
      else
        fresh[i] := true; new_ones := new_ones + 1;
      end if;
    end loop;
    answer := 0;
    if new_ones > 0 and c_expect[c] is not null and r_decided[r] <> c_expect[c] then
      answer := 2; infos[c] := r_decided[r];
    elsif new_ones > 0 then
      at := greatest(now_at, r_at[r]);
      us := case when at = now_at then now_us else (extract(epoch from at) * 1000000)::bigint end;
      st := r_status[r];
      for i in a .. z loop
        if fresh[i] then
          -- An event of this very call may be repeated later in it.
          if e_prior[i] >= a then
            seqs[i] := 0; fresh[i] := false; continue;
          end if;
          rule := e_rule[i];
          if (rule & 255) & st = 0 then
            answer := 3; refused := i; infos[c] := (i - a)::bigint * 65536 + st; exit;
          end if;
          if (rule >> 8) & 255 > 0 then st := (rule >> 8) & 255; end if;
          bit := (rule >> 26) & 7;
          if bit > 0 then
            if masks[e_slot[i]] & ((rule >> 16) & 31) <> (rule >> 16) & 31 or masks[e_slot[i]] & ((rule >> 21) & 31) <> 0 then
              answer := 4; refused := i; infos[c] := (i - a)::bigint * 65536 + masks[e_slot[i]]; exit;
            end if;
            masks[e_slot[i]] := masks[e_slot[i]] | (1 << (bit - 1));
          end if;
        end if;
      end loop;
      if answer = 0 then
        head := r_head[r]; seq := r_seq[r];
        for i in a .. z loop
          if fresh[i] then
            seq := seq + 1;
            head := sha256(head || substring(e_bytes from i * 96 - 31 for 32) || int8send(seq) || int8send(us));
            seqs[i] := seq; micros[i] := us; chains[i] := head; e_at[i] := at;
            e_xid[i] := case when r_era[r] = now_era then greatest(now_xid, r_xid[r]) else now_xid end;
            if e_rule[i] & 536870912 <> 0 then r_decided[r] := seq; end if;
          elsif seqs[i] = 0 then
            seqs[i] := seqs[e_prior[i]]; micros[i] := micros[e_prior[i]];
          end if;
        end loop;
        if r_era[r] <> now_era then r_xid[r] := now_xid; else r_xid[r] := greatest(now_xid, r_xid[r]); end if;
        r_era[r] := now_era; r_head[r] := head; r_seq[r] := seq; r_status[r] := st; r_at[r] := at; r_touched[r] := true;
      else
        -- Undo what the accepted part of this call noted about its steps.
        for i in a .. refused - 1 loop
          bit := (e_rule[i] >> 26) & 7;
          if fresh[i] and bit > 0 then masks[e_slot[i]] := masks[e_slot[i]] & ~(1 << (bit - 1)); end if;
        end loop;
      end if;
    end if;
    if answer <> 0 then
      for i in a .. z loop
        fresh[i] := false; seqs[i] := null; micros[i] := null;
      end loop;
    end if;
    answers[c] := answer;
    a := z + 1;
  end loop;
  -- Arrays grow by assignment; the last elements may never have been set.
  if n > 0 and coalesce(array_upper(seqs, 1), 0) < n then seqs[n] := null; end if;
  if n > 0 and coalesce(array_upper(micros, 1), 0) < n then micros[n] := null; end if;
  if n > 0 and coalesce(array_upper(fresh, 1), 0) < n then fresh[n] := null; end if;

  if array_position(r_touched, true) is not null then
    insert into runledger.run_events (run_key, run_seq, stream_xid, persisted_at, era, engine_attempt, logical_attempt, type,
        event_id, path, emitted_at, idempotency_key, record_hash, chain_hash, salt, payload)
      select u.run, u.seq, u.xid, u.at, now_era, u.engine, u.logical, u.type,
             encode(substring(e_bytes from o for 16), 'hex')::uuid, u.path, u.emitted,
             substring(e_bytes from o + 16 for 32), substring(e_bytes from o + 64 for 32), u.chain,
             substring(e_bytes from o + 48 for 16), u.payload
        from unnest(e_run, seqs, e_xid, e_at, e_engine, e_logical, e_type, e_path, e_emitted, chains, e_payload, fresh)
             with ordinality u(run, seq, xid, at, engine, logical, type, path, emitted, chain, payload, is_new, ord)
             cross join lateral (select (u.ord::integer - 1) * 96 + 1) p(o)
       where u.is_new;
    update runledger.runs t
       set last_seq = u.seq, decided_seq = u.decided, status = u.status, chain_head = u.head,
           last_persisted_at = u.at, stream_era = u.era, stream_xid = u.xid
      from unnest(r_key, r_seq, r_decided, r_status, r_head, r_at, r_era, r_xid, r_touched)
           u(key, seq, decided, status, head, at, era, xid, touched)
     where t.run_key = u.key and u.touched;
  end if;
end $$;

-- Creates runs together with their first events. A run that exists already (by id, request or trigger) is answered with
-- its key and created = false.
create function runledger.create_runs(
  n_id text[], n_tenant text[], n_project text[], n_environment text[], n_plan text[], n_version text[],
  n_request text[], n_trigger text[], n_trigger_type text[], n_trigger_ref text[], n_parent text[], n_retry text[],
  c_index integer[], c_count integer[],
  e_type smallint[], e_path text[], e_engine integer[], e_logical integer[], e_emitted text[], e_payload text[],
  e_rule integer[], e_slot integer[], e_prior integer[], e_bytes bytea,
  out run_keys bigint[], out run_ids text[], out created boolean[],
  out seqs bigint[], out micros bigint[], out fresh boolean[], out answers integer[], out infos bigint[]
) language plpgsql as $$
declare
  key bigint;
  c_run bigint[];
begin
  for i in 1 .. array_length(n_id, 1) loop
    insert into runledger.runs (run_id, tenant_id, project_id, environment_id, plan_id, plan_version, request_key, trigger_key,
        trigger_type, trigger_ref, parent_run_id, retry_of)
      values (n_id[i], n_tenant[i], n_project[i], n_environment[i], n_plan[i], n_version[i], decode(n_request[i], 'hex'),
        decode(n_trigger[i], 'hex'), n_trigger_type[i], n_trigger_ref[i], n_parent[i], n_retry[i])
      on conflict do nothing returning run_key into key;
    created[i] := key is not null;
    run_ids[i] := n_id[i];
    if key is null then
      -- The id wins over the request, and the request over the trigger.
      select x.run_key, x.run_id into key, run_ids[i] from runledger.runs x
       where x.run_id = n_id[i] or x.request_key = decode(n_request[i], 'hex') or x.trigger_key = decode(n_trigger[i], 'hex')
       order by x.run_id = n_id[i] desc, coalesce(x.request_key = decode(n_request[i], 'hex'), false) desc limit 1;
    end if;
    run_keys[i] := key;
  end loop;
  -- The next partition is made half a partition ahead, so that no batch meets a missing one.
  perform runledger.ensure_partition(key), runledger.ensure_partition(key + 50000);
  for i in 1 .. coalesce(array_length(c_index, 1), 0) loop c_run[i] := run_keys[c_index[i]]; end loop;
  if array_length(c_run, 1) > 0 then
    select a.seqs, a.micros, a.fresh, a.answers, a.infos into seqs, micros, fresh, answers, infos
      from runledger.append_core(c_run, c_count, array[]::bigint[], array[]::bigint[], array[]::text[], array[]::integer[],
        array[]::smallint[], e_type, e_path, e_engine, e_logical, e_emitted, e_payload, e_rule, e_slot, e_prior, e_bytes) a;
  end if;
end $$;

-- Erases payloads in the same transaction as the event that says so. All or nothing: a record that was erased before,
-- or does not exist, refuses the call.
create function runledger.erase_payloads(
  of_run bigint, of_seqs bigint[], e_type smallint[], e_path text[], e_engine integer[], e_logical integer[],
  e_emitted text[], e_payload text[], e_rule integer[], e_slot integer[], e_prior integer[], e_bytes bytea,
  out seqs bigint[], out micros bigint[], out fresh boolean[], out answers integer[], out infos bigint[], out erased integer
) language plpgsql as $$
begin
  erased := 0;
  select a.seqs, a.micros, a.fresh, a.answers, a.infos into seqs, micros, fresh, answers, infos
    from runledger.append_core(array[of_run], array[1], array[]::bigint[], array[]::bigint[], array[]::text[], array[]::integer[],
      array[]::smallint[], e_type, e_path, e_engine, e_logical, e_emitted, e_payload, e_rule, e_slot, e_prior, e_bytes) a;
  if answers[1] <> 0 or not fresh[1] then return; end if;
  perform set_config('runledger.erasing', pg_current_xact_id()::text, true);
  update runledger.run_events set payload = null, salt = null
   where run_key = of_run and run_seq = any(of_seqs) and salt is not null;
  get diagnostics erased = row_count;
  perform set_config('runledger.erasing', '', true);
  if erased <> array_length(of_seqs, 1) then
    raise exception 'some of these records were erased before' using errcode = 'RL002';
  end if;
end $$;

-- Called on every new connection. A cluster with another identity is a restored copy: it begins a new era.
create function runledger.open_session() returns integer language plpgsql as $$
declare
  cluster constant text := (select system_identifier::text from pg_control_system());
  now_era integer;
begin
  select era into now_era from runledger.stream_state where system_identifier = cluster;
  if now_era is null then
    update runledger.stream_state set era = era + 1, system_identifier = cluster where system_identifier <> cluster;
    select era into now_era from runledger.stream_state;
  end if;
  return now_era;
end $$;

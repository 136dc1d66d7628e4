-- Judge the message that an epoch failed with, alone. It is poison, and dead, if it was set aside
-- before and others got through: five epochs since then that had never failed, and none that had.
-- Such a proof is good for one message. Else it may be an outage: the message is set aside,
-- uncharged, so that others have their turn.
--
-- The n-th one that fails alone, n being halved with each epoch that gets through, is followed by
-- a wait: none, 1 s, 2 s, 4 s, … 60 s. It comes back after 10 s, 20 s, 40 s, … 1 h: longer than
-- others take, or two could take turns for ever. `suspect`: it; null: somebody else has it.
create or replace function turnabout_pipeline.epoch_judge(
    reader turnabout.subscription, epoch bigint, error text, now_ms bigint, out suspect bigint,
    out dead int, out failures int, out wait_ms bigint, out notified text[]
) language plpgsql as $$
declare
    v_part turnabout.epoch_part;
    v_back int := 0;
begin
    select p.* into v_part from turnabout.epoch_part p
    where p.subscription = reader.name and p.epoch = epoch_judge.epoch;
    suspect := v_part.ids[1]; dead := 0; failures := reader.failures + 1;
    wait_ms := case when failures > 1 then least(500 << least(failures - 1, 7), 60000) else 0 end;
    if reader.passed - greatest((reader.suspects ->> suspect::text)::bigint, reader.proven) >= 5
        and reader.suspects ? suspect::text
    then
        delete from turnabout.epoch_part p
        where p.subscription = reader.name and p.epoch = epoch_judge.epoch;
        select count(*) filter (where f.outcome in ('dead', 'blocked')), array_agg(v_part.queue)
                || array_agg(f.what) filter (where f.outcome = 'dead' and f.what <> '')
        into dead, notified
        from turnabout.queue q
        cross join lateral turnabout.fail(
            q.name, v_part.ids, v_part.attempts, array[error], array[false], array[null::bigint],
            now_ms, array[v_part.lease]) f
        where q.id = v_part.queue_id;
    else
        select r.returned, r.notified into v_back, epoch_judge.notified
        from turnabout_pipeline.epoch_return(
            reader.name, epoch_judge.epoch, 0, least(10000 << least(failures - 1, 9), 3600000),
            now_ms) r;
    end if;
    if dead + v_back = 0 then
        suspect := null; failures := 0; wait_ms := 0;
        return;
    end if;
    -- Those that are gone by now are forgotten.
    update turnabout.subscription s set failures = epoch_judge.failures,
        proven = case when dead > 0 then s.passed else s.proven end, resume_at = now_ms + wait_ms,
        suspects = (
            select coalesce(jsonb_object_agg(o.id, o.passed), '{}')
            from jsonb_each(jsonb_build_object(suspect, s.passed) || s.suspects) o (id, passed)
            where exists (select from turnabout.message m where m.id = o.id::bigint)
                and (dead = 0 or o.id <> suspect::text)
        )
    where s.name = reader.name;
end $$;

-- The next waiting messages of a redrive, at most `most`: in phase 1 those that died once, which
-- have an index; in phase 2 all others, found among those of other queues, a bounded share of
-- these; of one that names its messages, these. `last_id`: the last one looked at; `more`: there
-- may be others behind it.
create or replace function turnabout.redrive_look(
    redrive turnabout.redrive, most int, out ids bigint[], out last_id bigint, out more boolean
) language plpgsql as $$
begin
    if redrive.ids is not null then
        select array_agg(x.id order by x.id), max(x.id), count(*) = most
        into ids, last_id, more
        from (
            select m.id from turnabout.message m
            where m.id = any (redrive.ids) and m.queue_id = redrive.queue_id
                and m.id > redrive.last_id
            order by m.id limit most
        ) x;
        return;
    end if;
    if redrive.phase = 1 then
        select array_agg(x.id order by x.id), max(x.id), count(*) = most
        into ids, last_id, more
        from (
            select m.id from turnabout.message m
            where m.queue_id = redrive.queue_id and m.origin is not null and m.id > redrive.last_id
            order by m.id limit most
        ) x;
        return;
    end if;
    select array_agg(x.id order by x.id) filter (where x.is_ours), max(x.id), count(*) = 50000
    into ids, last_id, more
    from (
        select m.id, m.queue_id = redrive.queue_id and m.origin is null as is_ours
        from turnabout.message m where m.id > redrive.last_id order by m.id limit 50000
    ) x;
    if cardinality(ids) > most then
        ids := ids[1:most]; last_id := ids[most]; more := true;
    end if;
end $$;

-- End waiting messages as cancelled; note the wish on leased ones. Answers per id: its place in the
-- list, and cancelled | requested | leased (a row that another transaction holds) | gone.
-- plans: pinned
create or replace function turnabout.cancel(queue text, ids bigint[], now_ms bigint default null)
returns table (nr int, outcome text)
language plpgsql as $$
declare
    v_queue turnabout.queue := turnabout.find_queue(cancel.queue);
    v_now bigint := coalesce(cancel.now_ms, turnabout.clock_ms());
    v_held bigint[] := turnabout.lock_messages(v_queue.id, cancel.ids);
    v_waiting bigint[];
    v_leased bigint[];
begin
    -- 1. What they are at, now that nobody else can change it.
    select array_agg(m.id) filter (where m.status + 0 < 2),
        array_agg(m.id) filter (where m.status + 0 = 2)
    into v_waiting, v_leased
    from turnabout.message m
    where m.id = any (v_held);

    -- 2. End, or note.
    if v_waiting is not null then
        perform turnabout.end_messages(v_queue, v_waiting, 3, v_now);
    end if;
    if v_leased is not null then
        update turnabout.message m
        set cancel_requested = true
        where m.id = any (v_leased) and not m.cancel_requested;
    end if;

    return query
    select t.nr::int, case
        when t.id = any (v_waiting) then 'cancelled'
        when t.id = any (v_leased) then 'requested'
        else turnabout.leased_or_gone(v_queue.id, t.id)
    end
    from unnest(cancel.ids) with ordinality t (id, nr);
end
$$;

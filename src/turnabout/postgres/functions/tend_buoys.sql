-- Lower the buoys that something live lies behind (a late commit, a receive that was rolled back),
-- and drop those that a newer one replaces, or that are old: where one is still needed, receive
-- lays it again. Without this look a message could stay hidden: P1 rests on it.
create or replace function turnabout.tend_buoys(queue_id int, now_ms bigint) returns void
language plpgsql as $$
#variable_conflict use_column
declare
    v_buoy record;
    v_hidden bigint;
begin
    for v_buoy in
        select m.id, m.channel, m.priority, m.at, m.sent_at from turnabout.message m
        where m.queue_id = tend_buoys.queue_id and m.id < 0
        order by m.id
        limit 2000
        for update skip locked
    loop
        select x.id into v_hidden
        from (
            select m.id, m.priority from turnabout.message m
            where m.queue_id = tend_buoys.queue_id and m.channel = v_buoy.channel
                and m.status = 0 and not m.limited
                and (m.priority, m.id) >= (v_buoy.priority, 1::bigint)
                and (m.priority, m.id) < (v_buoy.priority, v_buoy.at)
            order by m.priority, m.id
            limit 1
        ) x;
        if v_hidden is not null then
            perform turnabout.insert_buoy(
                tend_buoys.queue_id, v_buoy.channel, v_buoy.priority, v_hidden);
        end if;
        if v_hidden is not null or v_buoy.sent_at < tend_buoys.now_ms - 30000 or exists (
            select from turnabout.message m
            where m.queue_id = tend_buoys.queue_id and m.channel = v_buoy.channel
                and m.status = 0 and not m.limited and m.priority = v_buoy.priority
                and m.id < v_buoy.id
        ) then
            delete from turnabout.message m where m.id = v_buoy.id;
        end if;
    end loop;
end
$$;

-- Take the head of the next channel that nobody holds, from the line without limits; at the end of
-- the names, of the first. (No name lies between a name and that name with the least character
-- after it.) `rows`: some channel has a row; what was sent before its channel got it is passed over
-- here. Null: nothing was found so.
--
-- It knows no head marks; but one small statement starts much quicker than that of take_many.
create or replace function turnabout.take_one(
    queue_id int, start text, rows boolean, now_ms bigint
) returns bigint
language plpgsql as $$
declare
    v_id bigint;
    v_dead bigint := turnabout.dead_tuples_read();
begin
    delete from turnabout.ready r
    where r.ctid = (
        select head.ctid
        from (values (start || chr(1)), ('')) lap (place)
        cross join lateral (
            select e.ctid
            from turnabout.ready e
            where e.queue_id = take_one.queue_id and not e.limited
                and e.channel >= lap.place collate "C"
                and (e.expires_at is null or e.expires_at > now_ms)
            order by e.channel, e.priority, e.id
            limit 1
            for update skip locked
        ) head
        limit 1
    )
        and (not take_one.rows or (
            select 1 from turnabout.channel c
            where c.queue_id = take_one.queue_id and c.name = r.channel
        ) is null)
    returning r.id into v_id;
    if v_id is not null and turnabout.dead_tuples_read() > v_dead + 16 then
        perform turnabout.set_head_marks(take_one.queue_id, start, 1);
    end if;
    return v_id;
end
$$;

-- Messages came back to be ready: set lower head marks where a head mark would hide them.
create or replace function turnabout.lower_head_marks(queue_id int, ids bigint[]) returns void
language plpgsql as $$
begin
    if exists (
        select from turnabout.ready b
        where b.queue_id = lower_head_marks.queue_id and b.expires_at = 0
    ) then
        perform turnabout.insert_head_mark(
            lower_head_marks.queue_id, low.channel, low.priority, low.id)
        from (
            select m.channel, m.priority, min(m.id) as id from turnabout.message m
            where m.id = any (ids) group by m.channel, m.priority
        ) low
        cross join lateral (
            -- The newest mark of that run is its first entry.
            select b.at as mark from turnabout.ready b
            where b.queue_id = lower_head_marks.queue_id and not b.limited
                and b.channel = low.channel and b.priority = low.priority and b.id < 0
            order by b.priority, b.id limit 1
        ) newest
        where newest.mark > low.id;
    end if;
end $$;

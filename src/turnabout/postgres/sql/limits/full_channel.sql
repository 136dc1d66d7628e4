-- The first channel that would hold more than its max_size with these messages; no row: none would.
-- The count stops at max_size, so its cost is bounded by the limit and not by the backlog. `put`:
-- these messages stand in the table already.
create or replace function turnabout.full_channel(
    queue turnabout.queue, channels text[], messages int, put boolean default false
) returns table (channel text, max_size int, size bigint) language plpgsql stable as $$
begin
    return query
    select s.channel, s.max_size, s.size from (
        select n.channel, l.max_size, n.messages, (
            select count(*) - case when put then n.messages else 0 end
                + turnabout.uncounted_leases(queue, n.channel)
            from (
                (select from turnabout.ready r
                where r.queue_id = queue.id and r.limited = any ('{false,true}')
                    and r.channel = n.channel and r.id + 0 > 0
                limit l.most)
                union all
                (select from turnabout.scheduled d
                where d.queue_id = queue.id and d.limited and d.channel = n.channel limit l.most)
                union all
                (select from turnabout.slot s
                join turnabout.message m on m.id = s.id and m.attempt = s.attempt - 1
                where s.queue_id = queue.id and s.channel = n.channel limit l.most)
            ) held
        ) as size
        from (
            select coalesce(u.channel, '') as channel, count(*) as messages from unnest(
                array_fill(true, array[full_channel.messages]), full_channel.channels
            ) u (is_one, channel)
            group by 1
        ) n
        left join lateral (
            select r.max_size from turnabout.channel r
            where r.queue_id = queue.id and r.name = n.channel offset 0
        ) c on true
        cross join lateral (
            select o.max_size, o.max_size + case when put then n.messages else 0 end as most
            from (select coalesce(c.max_size, queue.max_size) as max_size) o
            where o.max_size is not null
        ) l
    ) s
    where s.size + s.messages > s.max_size order by s.channel limit 1;
end $$;

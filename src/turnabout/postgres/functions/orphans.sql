-- The queue's messages that stand nowhere: neither ready, nor scheduled, nor leased. Looks at the
-- first `most` of all messages from an id on.
-- plans: pinned
create or replace function turnabout.orphans(queue_id int, from_id bigint, most int)
returns bigint[]
language plpgsql as $$
begin
    return array(
        select u.id
        from (
            select m.id, m.attempt + 1
            from (
                select o.id, o.queue_id, o.attempt, o.at, o.channel, o.priority
                from turnabout.message o
                where o.id >= from_id
                order by o.id
                limit most
            ) m
            where m.queue_id = orphans.queue_id
                and not exists (
                    select from turnabout.ready r
                    where r.queue_id = m.queue_id and r.limited = any ('{false,true}')
                        and r.channel = m.channel and r.priority = m.priority and r.id = m.id
                )
                and not exists (
                    select from turnabout.scheduled s
                    where s.queue_id = m.queue_id and s.at = m.at and s.id = m.id
                )
            except
            select t.id, t.attempt
            from turnabout.lease l
            cross join unnest(l.ids, l.attempts) t (id, attempt)
            where l.queue_id = orphans.queue_id
        ) u (id)
    );
end
$$;

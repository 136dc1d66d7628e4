-- Those of these messages that have no place: neither ready, nor scheduled, nor leased.
-- plans: pinned
create or replace function turnabout.orphans(ids bigint[]) returns bigint[]
language plpgsql as $$
begin
    return array(
        select u.id
        from (
            select m.id, m.attempt + 1
            from unnest(ids) o (id)
            join turnabout.message m on m.id = o.id
            where not exists (
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
        ) u (id)
    );
end
$$;

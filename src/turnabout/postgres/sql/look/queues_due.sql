-- Queues with work for maintenance, up to `most` of them, chosen at random, so that none waits
-- behind others for ever. For programs that maintain all queues, like a server. By timers: a jump
-- in an index for each queue that has an entry there, so queues without any cost nothing. Or by
-- `old` rows: that reads a few entries of each queue, so it is called rarely. Work that only
-- matters to receivers is left to them.
create or replace function turnabout.queues_due(
    old boolean default false, most int default 500, now_ms turnabout.instant default null
) returns setof text language plpgsql as $$  -- plans: pinned
declare
    v_now bigint := coalesce(queues_due.now_ms, turnabout.clock_ms());
    v_longest bigint;
begin
    if not queues_due.old then
        return query
        with recursive there (id) as (
            select 0
            union all
            select least(
                (select s.queue_id from turnabout.scheduled s where s.queue_id > t.id
                order by s.queue_id, s.at limit 1),
                (select l.queue_id from turnabout.lease l where l.queue_id > t.id
                order by l.queue_id, l.until limit 1),
                (select r.queue_id from turnabout.ready r
                where r.queue_id > t.id and r.expires_at > 0
                order by r.queue_id, r.expires_at limit 1)
            )
            from there t where t.id is not null
        )
        select q.name::text from (
            select t.id from there t
            where (select 1 from turnabout.scheduled s
                    where s.queue_id = t.id and s.at <= v_now limit 1) is not null
                or (select 1 from turnabout.lease l
                    where l.queue_id = t.id and l.until <= v_now limit 1) is not null
                or (select 1 from turnabout.ready r where r.queue_id = t.id
                    and r.expires_at > 0 and r.expires_at <= v_now limit 1) is not null
                or (select 1 from turnabout.scheduled s
                    where s.queue_id = t.id and s.expires_at <= v_now limit 1) is not null
            union
            select r.queue_id from turnabout.redrive r
            where r.state = 'running' and (r.next_at is null or r.next_at <= v_now)
            union
            select (select o.id from turnabout.queue o where o.name = c.queue)
            from turnabout.recent_change c where c.queue <> ''
        ) due (id)
        join turnabout.queue q on q.id = due.id order by random() limit queues_due.most;
        return;
    end if;

    v_longest := turnabout.longest_history();
    return query
    select q.name::text from turnabout.queue q
    where q.timers_since > 0
        or (select 1 from turnabout.ready r
            where r.queue_id = q.id and r.expires_at = 0 limit 1) is not null
        or (select 1 from turnabout.tally t where t.queue_id = q.id offset 1 limit 1) is not null
        or (select 1 from turnabout.history h
            where h.queue_id = q.id and h.outcome = 1
                and h.finished_at < turnabout.history_before(q.history_ms, v_longest, v_now)
            limit 1) is not null
        or (select 1 from turnabout.history h
            where h.queue_id = q.id and h.outcome > 1
                and h.finished_at < turnabout.history_before(
                    coalesce(q.history_failed_ms, q.history_ms), v_longest, v_now)
            limit 1) is not null
        or (select 1 from turnabout.dedup d
            where d.queue_id = q.id and d.until_ms < v_now - 60000 limit 1) is not null
        or (select (select 1 from turnabout.message m
                where m.id = d.message_id and m.queue_id + 0 = q.id) is null
            from turnabout.dedup d where d.queue_id = q.id and d.until_ms is null
            order by d.until_ms, d.message_id limit 1)
        or (select e.at from turnabout.event e
            where e.queue_id = q.id order by e.xid, e.seq limit 1) < v_now - 86400000
    order by random() limit queues_due.most;
end $$;

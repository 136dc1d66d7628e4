-- Process a bounded share of timers: due messages become ready, and leases that ran out end. Rows
-- that others hold are skipped.
create or replace function turnabout.run_timers(queue turnabout.queue, now_ms bigint, most int)
returns void language plpgsql as $$
declare
    v_ids bigint[];
begin
    with due as (
        delete from turnabout.scheduled s where s.ctid = any (array(
            select e.ctid from turnabout.scheduled e
            where e.queue_id = queue.id and e.at <= now_ms and e.at > queue.timers_since
            order by e.at, e.id limit most for update skip locked
        ))
        returning s.*
    ),
    ready as (
        insert into turnabout.ready (id, expires_at, queue_id, priority, limited, channel)
        select d.id, d.expires_at, d.queue_id, d.priority, d.limited, d.channel from due d
    ),
    woken as (
        insert into turnabout.wake (queue_id, channel)
        select distinct d.queue_id, d.channel from due d where d.limited
    )
    select array_agg(d.id) into v_ids from due d;
    if v_ids is not null then perform turnabout.lower_head_marks(queue.id, v_ids); end if;
    perform turnabout.end_leases_due(queue, now_ms, most);
end $$;

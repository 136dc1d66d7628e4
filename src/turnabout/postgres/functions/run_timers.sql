-- What time has brought, a bounded share of it: due messages become ready; leases that ran out are
-- charged as a crash, and their messages become ready or die, or end as cancelled if somebody asked
-- for that. Rows that others hold are skipped.
create or replace function turnabout.run_timers(queue turnabout.queue, now_ms bigint, most int)
returns void
language plpgsql as $$
declare
    v_ids bigint[];
    v_dead bigint[];
    v_unwanted bigint[];
    v_crashed bigint[];
begin
    select array_agg(r.id),
        array_agg(r.id) filter (
            where r.status = 2 and not r.cancel_requested
                and turnabout.exhausted(queue, r.failures, r.crashes + 1)
        ),
        array_agg(r.id) filter (where r.status = 2 and r.cancel_requested),
        array_agg(r.id) filter (where r.status = 2)
    into v_ids, v_dead, v_unwanted, v_crashed
    from (
        select m.id, m.status, m.failures, m.crashes, m.cancel_requested from turnabout.message m
        where m.queue_id = queue.id and m.status > 0 and m.at <= now_ms
            and m.at > queue.timers_since
        order by m.at, m.id
        limit most
        for update skip locked
    ) r;
    if v_ids is null then
        return;
    end if;

    with back as (
        update turnabout.message m
        set status = 0, crashes = m.crashes + (m.status = 2)::int
        where m.id = any (v_ids)
        returning m.channel, m.limited
    )
    insert into turnabout.wake (queue_id, channel)
    select distinct queue.id, b.channel from back b where b.limited;

    perform turnabout.lower_head_marks(queue.id, v_ids);
    if v_unwanted is not null then
        perform turnabout.end_messages(queue, v_unwanted, 3, now_ms);
    end if;
    if v_dead is not null then
        perform turnabout.dead_letter(queue, v_dead, 'crashes', now_ms);
    end if;
    if queue.events = 'all' and v_crashed is not null then
        perform turnabout.note_events(queue, array(
            select c.id from unnest(v_crashed) c (id)
            where c.id <> all (coalesce(v_dead, '{}'))
        ), 'failed', now_ms);
    end if;
end
$$;

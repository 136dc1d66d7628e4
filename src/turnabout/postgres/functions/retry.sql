-- Make waiting messages ready now, their charges forgotten. Answers per id: its place in the list,
-- and retried | leased | gone.
-- plans: pinned
create or replace function turnabout.retry(queue text, ids bigint[], now_ms bigint default null)
returns table (nr int, outcome text)
language plpgsql as $$
declare
    v_queue turnabout.queue := turnabout.find_queue(retry.queue);
    v_now bigint := coalesce(retry.now_ms, turnabout.clock_ms());
    v_held bigint[] := turnabout.lock_messages(v_queue.id, retry.ids);
    v_back bigint[];
begin
    with back as (
        update turnabout.message m
        set status = 0, at = v_now, failures = 0, crashes = 0
        where m.id = any (v_held) and m.status + 0 < 2
        returning m.id, m.channel, m.limited
    ),
    woken as (
        insert into turnabout.wake (queue_id, channel)
        select distinct v_queue.id, b.channel from back b where b.limited
    )
    select array_agg(b.id) into v_back from back b;
    if v_back is not null then
        perform turnabout.lower_head_marks(v_queue.id, v_back);
        if v_queue.events = 'all' then
            perform turnabout.note_events(v_queue, v_back, 'deferred', v_now);
        end if;
    end if;

    return query
    select t.nr::int, case
        when t.id = any (v_back) then 'retried'
        else turnabout.leased_or_gone(v_queue.id, t.id)
    end
    from unnest(retry.ids) with ordinality t (id, nr);
end
$$;

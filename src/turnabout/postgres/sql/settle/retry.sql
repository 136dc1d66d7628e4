-- Make waiting messages ready now, their charges forgotten. Answers per id: its place in the list,
-- and retried | leased | gone.
create or replace function turnabout.retry(
    queue text, ids bigint[], now_ms turnabout.instant default null
) returns table (nr int, outcome text) language plpgsql as $$  -- plans: pinned
declare
    v_queue turnabout.queue := turnabout.find_queue(retry.queue);
    v_now bigint := coalesce(retry.now_ms, turnabout.clock_ms());
    v_back bigint[] := turnabout.take_out_messages(v_queue.id, retry.ids);
begin
    if cardinality(v_back) > 0 then
        update turnabout.message m
        set at = null, failures = 0, crashes = 0, delivered_before = m.attempt
        where m.id = any (v_back);
        perform turnabout.give_places(v_queue, v_back, v_now);
        if v_queue.events = 'all' then
            perform turnabout.note_events(v_queue, v_back, 'deferred', v_now);
        end if;
    end if;

    return query
    select t.nr::int, case
        when t.back is not null then 'retried'
        when turnabout.place_of(v_queue.id, t.id) = 'gone' then 'gone'
        else 'leased'
    end
    from unnest(
        retry.ids, turnabout.null_unless_held(retry.ids, retry.ids, v_back)
    ) with ordinality t (id, back, nr);
end $$;

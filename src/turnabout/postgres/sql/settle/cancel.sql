-- End waiting messages as cancelled; record the request on leased ones. Answers per id: its place
-- in the list, and cancelled | requested | leased (a row that another transaction holds) | gone.
create or replace function turnabout.cancel(
    queue text, ids bigint[], now_ms turnabout.instant default null
) returns table (nr int, outcome text) language plpgsql as $$  -- plans: pinned
declare
    v_queue turnabout.queue := turnabout.find_queue(cancel.queue);
    v_now bigint := coalesce(cancel.now_ms, turnabout.clock_ms());
    v_waiting bigint[] := turnabout.take_out_messages(v_queue.id, cancel.ids);
    v_others bigint[]; v_leased bigint[];
begin
    -- 1. What waits ends.
    perform turnabout.end_messages(v_queue, v_waiting, 3, v_now);

    -- 2. Leased messages: record the request. Lock first, so that nobody returns them meanwhile.
    v_others := turnabout.lock_messages(v_queue.id, array(
        select t.id from unnest(cancel.ids) t (id) except select w.id from unnest(v_waiting) w (id)
    ));
    v_leased := array(
        select o.id from unnest(v_others) o (id)
        except
        select w.id from unnest(turnabout.waiting_ids(v_queue.id, v_others)) w (id)
    );
    update turnabout.message m set cancel_requested = true
    where m.id = any (v_leased) and not m.cancel_requested;

    return query
    select t.nr::int, case
        when t.waiting is not null then 'cancelled'
        when t.leased is not null then 'requested'
        when turnabout.place_of(v_queue.id, t.id) = 'gone' then 'gone'
        else 'leased'
    end
    from unnest(
        cancel.ids, turnabout.null_unless_held(cancel.ids, cancel.ids, v_waiting),
        turnabout.null_unless_held(cancel.ids, cancel.ids, v_leased)
    ) with ordinality t (id, waiting, leased, nr);
end $$;

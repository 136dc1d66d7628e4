-- Let leases run for lease_ms from now: never shorter than they run already, or, if `exact`, no
-- longer; then 0 ends them now, as if they had run out. A note stays with the messages. Answers per
-- receipt: its place in the list, and either `at` and whether its cancelling was asked for, or what
-- the message is now.
create or replace function turnabout.extend(
    queue text, ids bigint[], attempts int[], lease_ms turnabout.rest_of_lease default null,
    now_ms turnabout.instant default null, leases bigint[] default null,
    note turnabout.note default null, exact boolean default false
) returns table (nr int, at bigint, cancel_requested boolean, now text)
language plpgsql as $$  -- plans: pinned
declare
    v_queue turnabout.queue := turnabout.find_queue(extend.queue, false);
    v_leases bigint[] := turnabout.leases_of(
        v_queue.id, extend.ids, extend.attempts, extend.leases);
    v_exact boolean := coalesce(extend.exact, false);
    v_held bigint[] := turnabout.lock_leases(v_queue.id, extend.ids, extend.attempts, v_leases);
    v_until bigint[];
begin
    if extend.lease_ms = 0 and not v_exact then
        raise exception 'a lease of 0 ms ends now, which needs exact => true'
            using errcode = 'check_violation';
    end if;
    v_until := turnabout.extend_leases(
        extend.ids, turnabout.null_unless_held(v_leases, extend.ids, v_held),
        coalesce(extend.now_ms, turnabout.clock_ms()) + coalesce(extend.lease_ms, v_queue.lease_ms),
        v_exact);
    if v_exact then
        v_held := array(
            select t.id from unnest(extend.ids, v_until) t (id, until) where t.until is not null
        );
    end if;
    if extend.note is not null then
        update turnabout.message m set note = extend.note where m.id = any (v_held);
        if v_queue.events = 'all' then
            perform turnabout.note_events(
                v_queue, v_held, 'noted', coalesce(extend.now_ms, turnabout.clock_ms()));
        end if;
    end if;
    return query
    select t.nr::int, t.until, m.cancel_requested, null::text
    from unnest(extend.ids, v_until) with ordinality t (id, until, nr)
    join turnabout.message m on m.id = t.id where t.until is not null;
    if cardinality(v_held) < cardinality(extend.ids) then
        return query
        select l.nr::int, null::bigint, false, l.now
        from unnest(turnabout.places_of_lost(v_queue.id, extend.ids, v_held))
            with ordinality l (now, nr)
        where l.now is not null;
    end if;
end $$;

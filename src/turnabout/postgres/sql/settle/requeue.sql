-- Give back leased messages that the caller has locked, and end their leases, which began at
-- `leased_at`; null: the caller has ended them. Each of `delays` counts from now; 0 is ready at
-- once.
--
-- Messages whose cancelling was requested end instead, and those out of deliveries are dead.
-- Answers with both, null if there are none, and for the dead with the answer of `dead_letter`.
create or replace function turnabout.requeue(
    queue turnabout.queue, ids bigint[], leased_at bigint[], delays bigint[], now_ms bigint,
    kind text, out unwanted bigint[], out dead bigint[], out dead_letter text
) language plpgsql as $$
declare
    v_ids bigint[]; v_channels text[]; v_back bigint[];
begin
    with back as (
        update turnabout.message m set attempt = m.attempt + (requeue.leased_at is not null)::int,
            leased_at = coalesce(t.leased_at, m.leased_at),
            at = case when t.delay > 0 then now_ms + t.delay end
        from unnest(ids, requeue.leased_at, delays) t (id, leased_at, delay) where m.id = t.id
        returning m.id, m.channel, m.cancel_requested, turnabout.exhausted(
            queue, 0, m.attempt - coalesce(m.delivered_before, 0)) is not null as is_dead
    )
    select array_agg(b.id), array_agg(b.channel),
        array_agg(b.id) filter (where not b.is_dead and not b.cancel_requested),
        array_agg(b.id) filter (where b.is_dead and not b.cancel_requested),
        array_agg(b.id) filter (where b.cancel_requested)
    into v_ids, v_channels, v_back, dead, unwanted
    from back b;
    perform turnabout.give_back_slots(queue, v_ids, v_channels);
    perform turnabout.give_places(queue, v_back, now_ms);
    if unwanted is not null then perform turnabout.end_messages(queue, unwanted, 3, now_ms); end if;
    if dead is not null then
        dead_letter := turnabout.dead_letter(queue, dead, 'deliveries', now_ms);
    end if;
    if queue.events = 'all' and v_back is not null then
        perform turnabout.note_events(queue, v_back, kind, now_ms);
    end if;
end $$;

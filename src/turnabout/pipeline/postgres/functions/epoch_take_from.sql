-- Lease messages of one queue for a subscription, as receive does, from where its turn is; of a
-- FIFO queue in runs of a channel, as an epoch is done whole or not at all. Answers with them; null
-- if there are none.
create or replace function turnabout_pipeline.epoch_take_from(
    subscription text, queue text, most int, lease_ms bigint, now_ms bigint, out ids bigint[],
    out attempts int[], out lease bigint, out priorities smallint[], out channels text[]
) language plpgsql as $$
declare
    v_start text; v_served int; v_channel text;
begin
    select t.channel, t.served into v_start, v_served from turnabout.subscription_turn t
    where t.subscription = epoch_take_from.subscription and t.queue = epoch_take_from.queue;
    v_served := coalesce(v_served, 0);

    -- A last row without an id tells where the turn goes on.
    select array_agg(r.id) filter (where r.id is not null),
        array_agg(r.attempt) filter (where r.id is not null), min(r.lease),
        array_agg(r.priority) filter (where r.id is not null),
        array_agg(r.channel) filter (where r.id is not null),
        min(r.channel) filter (where r.id is null),
        coalesce(min(r.attempt) filter (where r.id is null), v_served)
    into epoch_take_from.ids, epoch_take_from.attempts, epoch_take_from.lease,
        epoch_take_from.priorities, epoch_take_from.channels, v_channel, v_served
    from turnabout.receive(
        epoch_take_from.queue, most, lease_ms, v_start, v_served, null, null, now_ms,
        run => most) r;
    if ids is null then return; end if;

    -- Without one, it is after the last channel of those that gave most.
    if v_channel is null then
        select c.channel, case when c.channel = v_start then v_served else 0 end + c.count
        into v_channel, v_served
        from (
            select n.channel, count(*)::int as count from unnest(channels) n (channel)
            group by n.channel
        ) c
        order by c.count desc, c.channel collate "C" <= v_start collate "C" desc,
            c.channel collate "C" desc
        limit 1;
    end if;
    insert into turnabout.subscription_turn as t (subscription, queue, channel, served)
    values (epoch_take_from.subscription, epoch_take_from.queue, v_channel, v_served)
    on conflict (subscription, queue) do update
    set channel = excluded.channel, served = excluded.served;
end $$;

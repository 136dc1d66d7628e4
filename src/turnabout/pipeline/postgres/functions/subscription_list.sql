-- All subscriptions by name, with the messages that are leased for them now.
create or replace function turnabout_pipeline.subscription_list() returns table (
    name text, owner text, generation bigint, epoch bigint, acked bigint, messages bigint,
    lease_until bigint, max_messages int, queues text[], opened_at bigint, seen_at bigint
) language plpgsql stable as $$  -- plans: pinned
begin
    return query
    select s.name::text, s.owner, s.generation, s.epoch, s.acked, l.messages, l.lease_until,
        s.max_messages, s.queues, s.opened_at, s.seen_at
    from turnabout.subscription s
    cross join lateral (
        select count(*) as messages, min(r.lease_until) as lease_until from turnabout.epoch_rows r
        where r.subscription = s.name::text
    ) l
    order by s.name;
end $$;

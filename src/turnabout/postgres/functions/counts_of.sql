-- What a queue was sent and how it ended, of several queues, from the tally.
create or replace function turnabout.counts_of(queues int[])
returns table (
    queue_id int, sent bigint, done bigint, dead bigint, cancelled bigint, expired bigint
)
language sql stable as $$
    select t.queue_id, sum(t.sent)::bigint, sum(t.done)::bigint, sum(t.dead)::bigint,
        sum(t.cancelled)::bigint, sum(t.expired)::bigint
    from turnabout.tally t
    where t.queue_id = any (queues)
    group by t.queue_id
$$;

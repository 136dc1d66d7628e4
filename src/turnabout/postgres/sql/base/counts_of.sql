-- Counts of sent and ended messages of several queues, from the tally.
create or replace function turnabout.counts_of(queues int[])
returns table (
    queue_id int, sent bigint, done bigint, dead bigint, cancelled bigint, expired bigint
) language sql stable as $$
    select t.queue_id, coalesce(sum(t.sent), 0)::bigint, coalesce(sum(t.done), 0)::bigint,
        coalesce(sum(t.dead), 0)::bigint, coalesce(sum(t.cancelled), 0)::bigint,
        coalesce(sum(t.expired), 0)::bigint
    from turnabout.tally t where t.queue_id = any (queues) group by t.queue_id
$$;

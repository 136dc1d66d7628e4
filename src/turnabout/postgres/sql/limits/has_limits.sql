-- Whether anything limits what a channel with a row gives, so that who takes from it must hold its
-- row. A weight, or a size, does not: then any number of receivers may work there at once, and it
-- has its share of each.
create or replace function turnabout.has_limits(
    queue turnabout.queue, channel turnabout.channel
) returns boolean
language sql immutable parallel safe as $$
    select queue.fifo or coalesce(channel.paused, false) or coalesce(
        channel.paused_until, channel.max_concurrency::bigint, queue.max_concurrency,
        channel.rate_interval_us, queue.rate_interval_us) is not null
$$;

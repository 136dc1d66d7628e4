-- Whether a channel with a row is limited, so that receivers must lock its row. A weight or a size
-- does not count: any number of receivers may share such a channel, each with a part of its turn.
create or replace function turnabout.has_limits(
    queue turnabout.queue, channel turnabout.channel
) returns boolean language sql immutable parallel safe as $$
    select queue.fifo or coalesce(channel.paused, false) or coalesce(
        channel.paused_until, channel.max_concurrency::bigint, queue.max_concurrency,
        channel.rate_interval_us, queue.rate_interval_us) is not null
$$;

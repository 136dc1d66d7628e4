-- How long a message waits after its n-th charge: doubled each time, capped, less a random share.
create or replace function turnabout.backoff_ms(queue turnabout.queue, charges int) returns bigint
language sql volatile parallel safe as $$
    select (
        least(
            queue.backoff_max_ms, queue.backoff_ms * (2 ^ least(charges - 1, 40))::numeric
        ) * (1 - random() * queue.backoff_jitter_percent / 100.0)::numeric
    )::bigint
$$;

-- The one predicate that decides why a message may not be retried: it has used up its charged
-- attempts, or its deliveries in this queue; null: it may. Every path that returns a lease calls
-- it, so that no message is ever both undeliverable and alive.
create or replace function turnabout.exhausted(
    queue turnabout.queue, charged int, deliveries int
) returns text language sql immutable parallel safe as $$
    select case
        when charged >= queue.max_attempts then 'attempts'
        when deliveries >= queue.max_deliveries then 'deliveries'
    end
$$;

-- The one predicate that says why a message may not come back: its charged attempts are used up, or
-- its deliveries, so many of them in this queue; null: it may. All that gives back a lease asks it,
-- so that no message is ever both undeliverable and alive.
create or replace function turnabout.exhausted(
    queue turnabout.queue, charged int, deliveries int
) returns text
language sql immutable parallel safe as $$
    select case
        when charged >= queue.max_attempts then 'attempts'
        when deliveries >= queue.max_deliveries then 'deliveries'
    end
$$;

-- Now, in whole milliseconds since 1970, never rounded up: nothing is due before its time.
-- clock_timestamp, not now(): a transaction that waited must not act in the past.
create or replace function turnabout.clock_ms() returns bigint
language sql volatile parallel safe as $$
    select floor(extract(epoch from clock_timestamp()) * 1000)::bigint
$$;

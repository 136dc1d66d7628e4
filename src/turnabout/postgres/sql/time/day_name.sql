-- The partition of history for the day (in UTC) of an instant.
create or replace function turnabout.day_name(at_ms bigint) returns text
language sql immutable parallel safe as $$
    select 'turnabout.history_'
        || to_char(to_timestamp(at_ms / 1000) at time zone 'UTC', 'YYYYMMDD')
$$;

-- How many messages one visit of a channel takes, in a receive of up to `max_messages`.
create or replace function turnabout.quantum(max_messages int) returns int
language sql immutable parallel safe as $$
    select case when max_messages >= 40 then 4 when max_messages >= 10 then 2 else 1 end
$$;

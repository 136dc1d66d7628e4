-- The state of an unfinished message. What is due is ready, whether or not a receive has noticed it
-- yet (status 1); in FIFO queues a message that waits has status 0 and a time in the future.
create or replace function turnabout.state_of(status smallint, at bigint, now_ms bigint)
    returns text
language sql immutable parallel safe as $$
    select case when status = 2 then 'leased' when at > now_ms then 'scheduled' else 'ready' end
$$;

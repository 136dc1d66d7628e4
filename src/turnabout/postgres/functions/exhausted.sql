-- The one predicate that says when attempts are used up; fail and run_timers both ask it, so that
-- no message is ever both undeliverable and alive.
create or replace function turnabout.exhausted(queue turnabout.queue, failures int, crashes int)
returns boolean
language sql immutable parallel safe as $$
    select queue.max_attempts is not null and failures + crashes >= queue.max_attempts
$$;

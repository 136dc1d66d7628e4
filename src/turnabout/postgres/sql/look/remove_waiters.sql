-- A process waits no longer, in no queue.
create or replace function turnabout.remove_waiters(process text) returns void
language plpgsql as $$  -- plans: pinned
begin
    delete from turnabout.waiter w
    where w.process = remove_waiters.process and w.role = session_user::regrole;
end $$;

-- Notify those who wait in a queue, for people who send by plain SQL and are in a hurry: after the
-- commit, since in the same transaction it would make all senders commit one after another.
create or replace function turnabout.notify_waiters(queue turnabout.known_queue) returns void
language plpgsql as $$
begin
    perform turnabout.notify_waiters(
        array[notify_waiters.queue], array[3::smallint], array[null::int], array[null::text]);
end $$;

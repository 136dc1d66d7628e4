-- Fails: a call that is all or nothing has found receipts that are stale, or messages that others
-- hold just now. It is to be repeated by a function that tells them apart.
create or replace function turnabout.not_all_held() returns bigint language plpgsql as $$
begin
    raise exception 'some leases are not held' using errcode = 'lock_not_available';
end $$;

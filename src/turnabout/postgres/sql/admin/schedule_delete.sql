-- Remove a schedule; whether it was there.
create or replace function turnabout.schedule_delete(name text) returns boolean
language plpgsql as $$  -- plans: free
begin
    perform turnabout.lock_schedule(schedule_delete.name);
    delete from turnabout.schedule s where s.name = schedule_delete.name;
    return found;
end $$;

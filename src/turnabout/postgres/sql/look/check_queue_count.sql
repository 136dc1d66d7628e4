-- One call names at most 1,000 queues.
create or replace function turnabout.check_queue_count(queues text[]) returns void
language plpgsql immutable as $$
begin
    if cardinality(queues) > 1000 then
        raise exception 'at most 1,000 queues in one call, not %', cardinality(queues)
            using errcode = '22023';
    end if;
end $$;

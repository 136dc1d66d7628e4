-- Of a message that could not be held: leased (or in somebody's hands just now), or gone.
create or replace function turnabout.leased_or_gone(queue_id int, id bigint) returns text
language sql stable as $$
    select case when exists (
        select from turnabout.message m
        where m.id = leased_or_gone.id and m.queue_id + 0 = leased_or_gone.queue_id
    ) then 'leased' else 'gone' end
$$;

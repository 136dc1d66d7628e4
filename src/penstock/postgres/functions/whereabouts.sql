-- Of a message that could not be held: leased (or in somebody's hands just now), or gone.
create or replace function penstock.whereabouts(queue_id int, id bigint) returns text
language sql stable as $$
    select case when exists (
        select from penstock.message m
        where m.id = whereabouts.id and m.queue_id + 0 = whereabouts.queue_id
    ) then 'leased' else 'gone' end
$$;

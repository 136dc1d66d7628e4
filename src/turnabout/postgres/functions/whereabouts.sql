-- Of a message that could not be held: leased (or in somebody's hands just now), or gone.
create or replace function turnabout.whereabouts(queue_id int, id bigint) returns text
language sql stable as $$
    select case when exists (
        select from turnabout.message m
        where m.id = whereabouts.id and m.queue_id + 0 = whereabouts.queue_id
    ) then 'leased' else 'gone' end
$$;

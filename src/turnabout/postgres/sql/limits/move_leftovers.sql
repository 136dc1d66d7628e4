-- Messages from before their channels had rows come first, as they are the oldest: they move over.
create or replace function turnabout.move_leftovers(queue_id int, channels text[], most int)
returns void language plpgsql as $$
declare
    v_names text[];
begin
    select array_agg(n.name) into v_names from unnest(channels) n (name)
    where (
        select 1 from turnabout.ready r
        where r.queue_id = move_leftovers.queue_id and not r.limited and r.channel = n.name
            and r.id + 0 > 0
        limit 1
    ) is not null;
    if v_names is not null then perform turnabout.move_over(queue_id, v_names, most); end if;
end $$;

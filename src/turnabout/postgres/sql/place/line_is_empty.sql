-- Whether the line without limits is empty; messages held by others count. Null: only head marks
-- are there, and perhaps messages below one, which maintenance finds within a second.
create or replace function turnabout.line_is_empty(queue_id int) returns boolean
language plpgsql stable as $$
begin
    return (
        with recursive hop (place, is_left) as (
            select '' collate "C", false
            union all
            select next.channel || chr(1), next.id > 0 or (
                    select 1 from turnabout.ready e
                    where e.queue_id = line_is_empty.queue_id and not e.limited
                        and e.channel = next.channel and e.id + 0 > 0
                        and (e.priority, e.id) >= (next.priority, next.at) limit 1
                ) is not null
            from hop
            cross join lateral (
                {{entry what = r.*; queue = line_is_empty.queue_id; after = >= hop.place}}
            ) next
            where not hop.is_left
        )
        select case when bool_or(h.is_left) then false when count(*) = 1 then true end from hop h
    );
end $$;

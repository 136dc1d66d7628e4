-- The first place of the next channel in the line; at the end of the names, of the first one. Where
-- that is a head mark (an id below zero, see sql/place/set_head_marks.sql), it goes on at its mark.
select first.* from (values (coalesce($channel::text || chr(1), chr(1114111))), ('')) lap (name)
cross join lateral (
    {{entry
        what = r.channel, r.priority, case when r.id < 0 then r.at else r.id end as since;
        queue = {queue};
        after = >= lap.name collate "C"}}
) first
limit 1

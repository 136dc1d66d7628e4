-- Take from channels whose rows limit nothing (has_limits): up to `takes` from each and `most` in
-- all. Nobody has locked these rows, so any number of receivers may work there at once. Then put to
-- sleep what has run dry, as far as nobody holds it.
create or replace function turnabout.take_from_free_channels(
    queue turnabout.queue, channels text[], takes int[], most int, now_ms bigint
) returns bigint[] language plpgsql as $$
declare
    v_ids bigint[]; v_taken text[]; v_dry text[];
begin
    -- 1. What has limits by now is left to the next look. Messages from before the row come first.
    select array_agg(t.name), array_agg(t.take) into channels, takes
    from unnest(channels, takes) t (name, take)
    cross join lateral (
        select o.* from turnabout.channel o where o.queue_id = queue.id and o.name = t.name offset 0
    ) c
    where not turnabout.has_limits(queue, c) and not exists (
        select from turnabout.wake w
        where w.queue_id = queue.id and w.channel = c.name and w.policy is not null
    );
    perform turnabout.move_leftovers(queue.id, channels, 100 + most);

    -- 2. Take.
    v_ids := turnabout.take_from_channels(queue.id, true, channels, takes, most, now_ms);
    v_taken := turnabout.give_slots(queue.id, v_ids);

    -- 3. Those that gave less may have nothing more.
    select array_agg(c.name) into v_dry from unnest(channels, takes) t (name, take)
    left join (
        select u.name, count(*) as taken from unnest(v_taken) u (name) group by u.name
    ) g on g.name = t.name
    cross join lateral (
        select o.name from turnabout.channel o
        where o.queue_id = queue.id and o.name = t.name and o.awake for update skip locked
    ) c
    where coalesce(g.taken, 0) < t.take;
    if v_dry is not null then perform turnabout.settle_channels(queue, v_dry, null, now_ms); end if;
    return v_ids;
end $$;

-- Cancel up to `most` unfinished messages, of one channel or state if named; leased ones only if
-- their state is named. Answers with how many; call again until it is fewer than `most`.
create or replace function turnabout.purge(
    queue text, channel text default null, state text default null, most int default 10000,
    now_ms bigint default null
) returns int
language plpgsql as $$
declare
    v_queue turnabout.queue := turnabout.find_queue(purge.queue);
    v_now bigint := coalesce(purge.now_ms, turnabout.clock_ms());
    v_ids bigint[];
begin
    v_ids := array(
        select r.id from turnabout.message r
        where r.queue_id = v_queue.id and r.id > 0
            and (purge.channel is null or r.channel = purge.channel)
            and case
                when purge.state is null then r.status < 2
                else turnabout.state_of(r.status, r.at, v_now) = purge.state
            end
        limit purge.most
        for update skip locked
    );
    if cardinality(v_ids) > 0 then
        return turnabout.end_messages(v_queue, v_ids, 3, v_now);
    end if;
    return 0;
end
$$;

-- Cancel up to `most` unfinished messages, of one channel or state if named; leased ones only if
-- their state is named. Answers with how many; call again until it is fewer than `most`.
create or replace function turnabout.purge(
    queue text, channel turnabout.channel_name default null, state text default null,
    most int default 10000, now_ms turnabout.instant default null
) returns int language plpgsql as $$  -- plans: free
declare
    v_queue turnabout.queue := turnabout.find_queue(purge.queue);
    v_now bigint := coalesce(purge.now_ms, turnabout.clock_ms());
    v_ids bigint[];
begin
    if purge.state is distinct from 'leased' then
        perform turnabout.run_timers(v_queue, v_now, purge.most);  -- what ran out is nobody's
        with gone as (
            delete from turnabout.ready r where r.ctid = any (array(
                select e.ctid from turnabout.ready e
                where e.queue_id = v_queue.id and e.id > 0
                    and (purge.channel is null or e.channel = purge.channel)
                    and (purge.state is null
                        or purge.state = case when e.at > v_now then 'scheduled' else 'ready' end)
                limit purge.most for update skip locked
            ))
            returning r.id
        )
        select array_agg(g.id) into v_ids from gone g;
        with gone as (
            delete from turnabout.scheduled s where s.ctid = any (array(
                select e.ctid from turnabout.scheduled e
                where e.queue_id = v_queue.id
                    and (purge.channel is null or e.channel = purge.channel)
                    and (purge.state is null
                        or purge.state = case when e.at > v_now then 'scheduled' else 'ready' end)
                limit purge.most - coalesce(cardinality(v_ids), 0) for update skip locked
            ))
            returning s.id
        )
        select v_ids || array_agg(g.id) into v_ids from gone g;
    else
        with held as (
            select m.id from turnabout.leased_messages(array[v_queue.id]) l
            join turnabout.message m on m.id = l.id and m.attempt = l.attempt - 1
            where purge.channel is null or l.channel = purge.channel limit purge.most
            for update of m skip locked
        ),
        ended as (
            update turnabout.message m set attempt = m.attempt + 1, leased_at = l.leased_at
            from held h join turnabout.leased_messages(array[v_queue.id]) l on l.id = h.id
            where m.id = h.id returning m.id
        )
        select array_agg(e.id) into v_ids from ended e;
    end if;
    if cardinality(v_ids) > 0 then return turnabout.end_messages(v_queue, v_ids, 3, v_now); end if;
    return 0;
end $$;

-- Cancel up to `most` unfinished messages, of one channel or state if named; leased ones only if
-- their state is named. Answers with how many; call again until it is fewer than `most`.
create or replace function penstock.purge(
    queue text, channel text default null, state text default null, most int default 10000,
    now_ms bigint default null
) returns int
language plpgsql as $$
#variable_conflict use_column
declare
    v_queue penstock.queue := penstock.find_queue(purge.queue);
    v_now bigint := coalesce(purge.now_ms, penstock.clock_ms());
    v_count int;
begin
    with gone as (
        delete from penstock.message m
        where m.id = any (array(
            select r.id from penstock.message r
            where r.queue_id = v_queue.id and r.id > 0
                and (purge.channel is null or r.channel = purge.channel)
                and case
                    when purge.state is null then r.status < 2
                    else penstock.state_of(r.status, r.at, v_now) = purge.state
                end
            limit purge.most
            for update skip locked
        ))
        returning m.*
    ),
    kept as (
        insert into penstock.history (
            id, sent_at, leased_at, finished_at, queue_id, attempt, failures, crashes, outcome,
            channel
        )
        select g.id, g.sent_at, g.leased_at, v_now, g.queue_id, g.attempt, g.failures, g.crashes, 3,
            g.channel
        from gone g
        where v_queue.history_ms > 0
    ),
    told as (
        insert into penstock.wake (queue_id, channel)
        select distinct g.queue_id, g.channel from gone g where g.limited
    )
    select count(*)::int into v_count from gone;
    if v_count > 0 then
        insert into penstock.tally (queue_id, cancelled) values (v_queue.id, v_count);
    end if;
    return v_count;
end
$$;

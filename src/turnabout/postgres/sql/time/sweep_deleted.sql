-- Sweep messages that transactions have written to a queue deleted meanwhile. They were accepted,
-- so they go, uncharged, to the queue that has the name now (`heir`); without one they are deleted
-- like the others. `is_over`: nothing more can come.
create or replace function turnabout.sweep_deleted(
    queue_id int, heir turnabout.queue, is_over boolean, now_ms bigint
) returns void language plpgsql as $$
declare
    v_ids bigint[];
    v_leased bigint[] := array(
        select l.id from turnabout.leased_messages(array[sweep_deleted.queue_id]) l
    );
begin
    with gone as (
        delete from turnabout.ready r where r.ctid = any (array(
            select e.ctid from turnabout.ready e where e.queue_id = sweep_deleted.queue_id
            for update skip locked
        ))
        returning r.id
    ),
    gone_later as (
        delete from turnabout.scheduled s where s.ctid = any (array(
            select e.ctid from turnabout.scheduled e where e.queue_id = sweep_deleted.queue_id
            for update skip locked
        ))
        returning s.id
    )
    select array_agg(g.id) into v_ids from (
        select gone.id from gone
        union all
        select gone_later.id from gone_later
        union all
        select unnest(v_leased)
    ) g
    where g.id > 0;
    if heir.id is null then
        delete from turnabout.message m
        where m.id = any (v_ids) and m.queue_id = sweep_deleted.queue_id;
    elsif v_ids is not null then
        with moved as (
            update turnabout.message m
            set queue_id = heir.id, attempt = m.attempt + (m.id = any (v_leased))::int
            where m.id = any (v_ids) and m.queue_id = sweep_deleted.queue_id returning m.id
        )
        select coalesce(array_agg(m.id), '{}') into v_ids from moved m;
        perform turnabout.give_places(heir, v_ids, now_ms);
        insert into turnabout.tally (queue_id, sent) values (heir.id, cardinality(v_ids));
    end if;
    if is_over then perform turnabout.drop_rows(sweep_deleted.queue_id); end if;
end $$;

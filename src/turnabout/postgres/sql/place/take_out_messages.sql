-- Take messages from where they stand; answers with those that the caller has now. They are nobody
-- else's until they get a place again (give_places) or end: the transaction that removes an entry
-- decides what becomes of its message.
--
-- Entries that others hold are not waited for. They are tried again a few times, since most such
-- holders are gone within milliseconds.
create or replace function turnabout.take_out_messages(queue_id int, ids bigint[]) returns bigint[]
language plpgsql as $$
declare
    v_taken bigint[] := '{}';
    v_more bigint[];
begin
    for i in 0 .. 5 loop
        with gone as (
            delete from turnabout.ready r where r.ctid = any (array(
                select e.ctid from turnabout.message m
                cross join unnest(array[false, true]) side (limited)
                join turnabout.ready e on e.queue_id = m.queue_id and e.limited = side.limited
                    and e.channel = m.channel and e.priority = m.priority and e.id = m.id
                where m.id = any (ids) and m.queue_id + 0 = take_out_messages.queue_id
                for update of e skip locked
            ))
            returning r.id
        ),
        gone_later as (
            delete from turnabout.scheduled s where s.ctid = any (array(
                select e.ctid from turnabout.message m
                join turnabout.scheduled e on e.queue_id = m.queue_id and e.at = m.at
                    and e.id = m.id
                where m.id = any (ids) and m.queue_id + 0 = take_out_messages.queue_id
                for update of e skip locked
            ))
            returning s.id
        )
        select array_agg(g.id) into v_more
        from (select gone.id from gone union all select gone_later.id from gone_later) g;
        v_taken := v_taken || v_more;
        exit when cardinality(v_taken) = cardinality(ids) or i = 5
            or cardinality(turnabout.waiting_ids(queue_id, ids)) = 0;
        perform pg_sleep(0.002 * (1 << i));
    end loop;
    return v_taken;
end $$;

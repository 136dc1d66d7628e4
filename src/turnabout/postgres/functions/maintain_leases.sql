-- Sweep leases whose messages were all settled, not in one call, and notes of leases that are gone:
-- a share of them, from a random place on. Seldom look for messages that stand nowhere.
create or replace function turnabout.maintain_leases(queue turnabout.queue, now_ms bigint)
returns void
language plpgsql as $$
declare
    v_last bigint := pg_sequence_last_value('turnabout.lease_number'::regclass);
    v_first bigint;
begin
    select l.id into v_first from turnabout.lease l order by l.id limit 1;
    if v_first is not null then
        v_first := v_first + (greatest(0, 2 * random() - 1) * (v_last - v_first))::bigint;
    end if;
    delete from turnabout.lease l
    where l.ctid = any (array(
        select few.ctid
        from (
            select o.ctid, o.ids, o.attempts
            from turnabout.lease o
            where o.id >= v_first and o.queue_id + 0 = queue.id
            order by o.id
            limit 1000
            for update skip locked
        ) few
        where not exists (
            select from unnest(few.ids, few.attempts) t (id, attempt)
            join turnabout.message m on m.id = t.id and m.attempt = t.attempt - 1
        )
    ));
    delete from turnabout.extension e
    where e.ctid = any (array(
        select o.ctid from turnabout.extension o
        where not exists (select from turnabout.lease l where l.id = o.lease)
        limit 1000
        for update skip locked
    ));
    delete from turnabout.slot s
    where s.ctid = any (array(
        select o.ctid from turnabout.slot o
        where o.queue_id = queue.id and not exists (
            select from turnabout.message m where m.id = o.id and m.attempt = o.attempt - 1
        )
        limit 1000
        for update skip locked
    ));
    if random() < 0.01 then
        perform turnabout.find_strays(queue, now_ms);
    end if;
end
$$;

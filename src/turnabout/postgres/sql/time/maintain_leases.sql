-- Sweep leases whose messages were all settled, not in one call; notes of leases that are gone; and
-- slots that nobody has freed, as an ack that was open while its channel or queue got its first
-- limit: those channels look again, and now and then such a queue counts anew. A few pages of each
-- table, from a random one on. Seldom look for messages that stand nowhere.
create or replace function turnabout.maintain_leases(queue turnabout.queue, now_ms bigint)
returns void language plpgsql as $$
declare
    v_from tid; v_until tid;
begin
    select * into v_from, v_until from turnabout.random_pages('turnabout.lease');
    delete from turnabout.lease l where l.ctid = any (array(
        select o.ctid from turnabout.lease o
        where o.ctid >= v_from and o.ctid < v_until and not exists (
            select from unnest(o.ids, o.attempts) t (id, attempt)
            join turnabout.message m on m.id = t.id and m.attempt = t.attempt - 1
        )
        for update skip locked
    ));
    select * into v_from, v_until from turnabout.random_pages('turnabout.extension');
    delete from turnabout.extension e where e.ctid = any (array(
        select o.ctid from turnabout.extension o
        where o.ctid >= v_from and o.ctid < v_until
            and not exists (select from turnabout.lease l where l.id = o.lease)
        for update skip locked
    ));
    select * into v_from, v_until from turnabout.random_pages('turnabout.slot');
    with gone as (
        delete from turnabout.slot s where s.ctid = any (array(
            select o.ctid from turnabout.slot o
            where o.ctid >= v_from and o.ctid < v_until and not exists (
                select from turnabout.message m where m.id = o.id and m.attempt = o.attempt - 1
            )
            for update skip locked
        ))
        returning s.queue_id, s.channel
    ),
    noted as (
        insert into turnabout.slot_change (queue_id, freed) select g.queue_id, count(*) from gone g
        join turnabout.queue q on q.id = g.queue_id and q.queue_limited group by g.queue_id
    )
    insert into turnabout.wake (queue_id, channel) select distinct g.queue_id, g.channel from gone g
    join turnabout.channel c on c.queue_id = g.queue_id and c.name = g.channel;
    if random() < 0.01 then
        perform turnabout.rescue_orphans(now_ms);
        if queue.queue_limited then
            insert into turnabout.slot_change (queue_id) values (queue.id);
        end if;
    end if;
end $$;

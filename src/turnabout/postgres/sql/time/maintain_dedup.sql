-- Sweep dedup entries that no longer hold, a bounded share: windows that ended a minute ago (where
-- the message is there the entry stays, and counts for the modes that ask about the message), and
-- entries without one whose message has ended. Those are looked at from a random place on, half of
-- the times, so that old messages that are still waiting do not keep the look from the others.
create or replace function turnabout.maintain_dedup(queue_id int, now_ms bigint) returns void
language plpgsql as $$
declare
    v_there tid[]; v_gone tid[]; v_least bigint; v_most bigint; v_from bigint;
begin
    select array_agg(o.ctid) filter (where o.is_there), array_agg(o.ctid) filter (
        where not o.is_there
    )
    into v_there, v_gone
    from (
        select e.ctid, (
            select 1 from turnabout.message m
            where m.id = e.message_id and m.queue_id + 0 = maintain_dedup.queue_id
        ) is not null as is_there
        from (
            select r.ctid, r.message_id from turnabout.dedup r
            where r.queue_id = maintain_dedup.queue_id and r.until_ms < now_ms - 60000
            order by r.until_ms limit 10000 for update skip locked
        ) e
    ) o;
    delete from turnabout.dedup d where d.ctid = any (v_gone);
    update turnabout.dedup d set until_ms = null where d.ctid = any (v_there);

    select e.message_id into v_least from turnabout.dedup e
    where e.queue_id = maintain_dedup.queue_id and e.until_ms is null
    order by e.until_ms, e.message_id limit 1;
    if not found then return; end if;
    select e.message_id into v_most from turnabout.dedup e
    where e.queue_id = maintain_dedup.queue_id and e.until_ms is null
    order by e.until_ms desc, e.message_id desc limit 1;
    v_from := v_least + (greatest(0, 2 * random() - 1) * (v_most - v_least))::bigint;
    delete from turnabout.dedup d where d.ctid = any (array(
        select e.ctid from (
            select r.ctid, r.message_id from turnabout.dedup r
            where r.queue_id = maintain_dedup.queue_id and r.until_ms is null
                and r.message_id >= v_from
            order by r.until_ms, r.message_id  -- as the index has it
            limit 3000 for update skip locked
        ) e
        where (
            select 1 from turnabout.message m
            where m.id = e.message_id and m.queue_id + 0 = maintain_dedup.queue_id
        ) is null
    ));
end $$;

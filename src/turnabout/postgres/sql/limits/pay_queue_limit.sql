-- Take slots and tokens of a queue with limits of its own for messages that the caller leases.
-- (Messages of limited channels have slots already.)
--
-- The row is only written if it changes otherwise: notes that are not folded yet are found again.
create or replace function turnabout.pay_queue_limit(
    queue turnabout.queue, own turnabout.queue_limit, ids bigint[], now_ms bigint
) returns void language plpgsql as $$
declare
    v_count int;
begin
    with taken as materialized (
        select m.id, m.attempt + 1 as attempt, m.channel from turnabout.message m
        where m.id = any (ids)
    ),
    put as (
        insert into turnabout.slot (id, queue_id, attempt, channel)
        select t.id, queue.id, t.attempt, t.channel from taken t
        where (
            select 1 from turnabout.slot s
            where s.queue_id = queue.id and s.channel = t.channel and s.id = t.id
                and s.attempt = t.attempt
        ) is null
    )
    select count(*) into v_count from taken;
    own.leased := own.leased + v_count;
    if queue.queue_rate_interval_us is not null and v_count > 0 then
        own.rate_tat_us := greatest(own.rate_tat_us, now_ms * 1000)
            + v_count * queue.queue_rate_interval_us;
    end if;
    update turnabout.queue_limit l
    set leased = own.leased, folded_to = own.folded_to, rate_tat_us = own.rate_tat_us,
        rate_depth_us = own.rate_depth_us
    where l.queue_id = queue.id and (
        l.leased <> own.leased or l.rate_tat_us <> own.rate_tat_us
        or l.rate_depth_us <> own.rate_depth_us or l.folded_to < own.folded_to - 1000
    );
end $$;

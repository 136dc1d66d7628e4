-- Receive for a transaction that goes on afterwards, as that of a caller's own work.
--
-- Where channels have limits, receive locks the rows of those that it looks at, and looks at more
-- and more of them while it meets rows that others hold. In a transaction that ends at once that is
-- no matter; here they would stay locked, and nobody else could use these channels. So look first
-- and undo that, which frees all these rows; then start right before the channel that had
-- something.
-- plans: free
create or replace function turnabout.receive_within(
    queue text,
    max_messages turnabout.batch,
    lease_ms turnabout.lease_time default null,
    turn text default null,
    served int default 0,
    shard int default null,
    shards int default null,
    now_ms turnabout.instant default null,
    ids bigint[] default null,
    attempts int[] default null,
    leases bigint[] default null,
    results turnabout.kept[] default null,
    result_types turnabout.content_type[] default null
) returns setof turnabout.delivery
language plpgsql as $$
declare
    v_turn text := receive_within.turn;
    v_served int := receive_within.served;
    v_channel text;
    v_last int;
    v_acked turnabout.delivery;
begin
    if receive_within.ids is not null then
        v_acked.headers := to_json(turnabout.ack(
            receive_within.queue, receive_within.ids, receive_within.attempts,
            receive_within.now_ms, false, receive_within.results, receive_within.result_types,
            receive_within.leases));
    end if;
    if exists (
        select from turnabout.queue q
        where q.name = receive_within.queue
            and (q.limited or q.queue_limited
                or exists (select from turnabout.channel c where c.queue_id = q.id))
    ) then
        -- 1. Which channel has something that nobody holds?
        begin
            select d.channel into v_channel
            from turnabout.receive(
                receive_within.queue, 1, receive_within.lease_ms, v_turn, v_served,
                receive_within.shard, receive_within.shards, receive_within.now_ms) d
            where d.id is not null;
            raise exception 'looked only' using errcode = 'PQ000';
        exception
            when sqlstate 'PQ000' then null;
        end;

        -- 2. The place right before it. Before the first of all names is after the last one: null.
        if v_channel is not null then
            v_served := 0;
            v_last := ascii(right(v_channel, 1));
            v_turn := case
                when v_channel = '' then null
                when v_last = 1 then left(v_channel, -1)
                else left(v_channel, -1)
                    || chr(case v_last when 57344 then 55295 else v_last - 1 end)
                    || repeat(chr(1114111), 64)
            end;
        end if;
    end if;

    return query select * from turnabout.receive(
        receive_within.queue, receive_within.max_messages, receive_within.lease_ms, v_turn,
        v_served, receive_within.shard, receive_within.shards, receive_within.now_ms,
        check_due => false);
    if v_acked.headers is not null then
        return next v_acked;
    end if;
end
$$;

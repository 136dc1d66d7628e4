-- Lease the messages of a new epoch, from the queues in turn, and record them; answers with how
-- many. Each queue has its share of what is left, so what one leaves the next may take; those that
-- had more are asked again.
--
-- `bytes`: payloads of about as many, which is over when it has been reached. Of each queue ten
-- messages first, then as many as have room if they are as large as the last of this queue.
create or replace function turnabout_pipeline.epoch_take(
    subscription text, epoch bigint, queues text[], turn bigint, most int, lease_ms bigint,
    parts int, by_channel boolean, bytes bigint, now_ms bigint
) returns int language plpgsql as $$
declare
    v_first int := coalesce(turn % nullif(cardinality(queues), 0), 0);
    v_turn text[] := queues[v_first + 1 :] || queues[: v_first];
    v_again text[];
    v_left int := most;
    v_share int;
    v_size bigint := 0;
    v_got_size bigint;
    v_means jsonb := '{}';  -- sizes by queue
    v_got record;
    v_of text[] := '{}';
    v_ids bigint[] := '{}';
    v_attempts int[] := '{}';
    v_leases bigint[] := '{}';
    v_priorities smallint[] := '{}';
    v_channels text[] := '{}';
begin
    while v_left > 0 and cardinality(v_turn) > 0 and coalesce(v_size < bytes, true) loop
        v_again := '{}';
        for i in 1 .. cardinality(v_turn) loop
            exit when v_left = 0 or v_size >= bytes;
            v_share := (v_left + cardinality(v_turn) - i) / (cardinality(v_turn) - i + 1);
            if bytes is not null then
                v_share := least(v_share, coalesce(
                    (bytes - v_size) / (v_means ->> v_turn[i])::bigint + 1, 10));
            end if;
            v_got := turnabout_pipeline.epoch_take_from(
                epoch_take.subscription, v_turn[i], v_share, lease_ms, now_ms);
            continue when v_got.ids is null;
            v_of := v_of || array_fill(v_turn[i], array[cardinality(v_got.ids)]);
            v_ids := v_ids || v_got.ids;
            v_attempts := v_attempts || v_got.attempts;
            v_leases := v_leases || v_got.lease;
            v_priorities := v_priorities || v_got.priorities;
            v_channels := v_channels || v_got.channels;
            v_left := v_left - cardinality(v_got.ids);
            if bytes is not null then
                select sum(octet_length(m.payload)) into v_got_size from turnabout.message m
                where m.id = any (v_got.ids);
                v_size := v_size + v_got_size;
                v_means := v_means || jsonb_build_object(
                    v_turn[i], v_got_size / cardinality(v_got.ids) + 1);
            end if;
            if cardinality(v_got.ids) = v_share then v_again := v_again || v_turn[i]; end if;
        end loop;
        v_turn := v_again;
    end loop;
    if v_left < most then
        insert into turnabout.epoch (subscription, epoch, leased_at, until)
        values (epoch_take.subscription, epoch_take.epoch, now_ms, now_ms + lease_ms);
        perform turnabout_pipeline.epoch_note(
            epoch_take.subscription, epoch_take.epoch, v_of, v_ids, v_attempts, v_priorities,
            v_channels, parts, by_channel);
        -- A lease for each part, so that it is renewed, and ends, as a whole.
        delete from turnabout.lease l where l.id = any (v_leases);
        insert into turnabout.lease (id, until, leased_at, queue_id, ids, attempts)
        select p.lease, now_ms + lease_ms, now_ms, p.queue_id, p.ids, p.attempts
        from turnabout.epoch_part p
        where p.subscription = epoch_take.subscription and p.epoch = epoch_take.epoch;
    end if;
    return most - v_left;
end $$;

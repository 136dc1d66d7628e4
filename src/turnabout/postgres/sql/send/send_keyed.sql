-- As send, for messages of which some have dedup keys: one by one, each after what the one before
-- it left. `duplicates` and `replaced` are places in the list, from 0.
--
-- Only when all is in is it known what counts towards the limits; a refusal takes it back.
create or replace function turnabout.send_keyed(
    queue text, payloads bytea[], content_type text, channels text[], priorities smallint[],
    delays bigint[], headers text[], content_types text[], now_ms bigint, ttls bigint[],
    keys text[], modes text[], windows bigint[], scopes text[]
) returns table (
    ids bigint[], full_channel text, max_size int, size bigint, duplicates int[], replaced int[]
) language plpgsql as $$  -- plans: pinned
declare
    v_id int; v_queue turnabout.queue; v_refusal text;
begin
    -- 1. Senders of one key come one after another. (A missing queue is made after that: nothing
    --    must be written yet by a transaction that waits.)
    perform turnabout.lock_keys(send_keyed.queue, array(
        select distinct k.scope || ' ' || k.key from (
            select case when coalesce(
                    u.scope,
                    (select q.dedup_scope from turnabout.queue q where q.name = send_keyed.queue),
                    'queue'
                ) = 'channel' then '/' || coalesce(u.channel, '') else '' end as scope,
                u.key
            from unnest(keys, scopes, channels) u (key, scope, channel) where u.key is not null
        ) k
    ));
    select q.id into v_id from turnabout.queue q where q.name = send_keyed.queue;
    if not found then perform turnabout.queue_create(send_keyed.queue, '{}', now_ms); end if;
    select q.* into v_queue from turnabout.queue q where q.name = send_keyed.queue;
    perform turnabout.know_sizes(v_queue);

    -- 2. Send, or take it back.
    begin
        select s.ids, s.duplicates, s.replaced into ids, duplicates, replaced
        from turnabout.put_keyed(
            v_queue, payloads, content_type, channels, priorities, delays, headers, content_types,
            now_ms, ttls, keys, modes, windows, scopes) s;
    exception when sqlstate 'PQ429' then
        get stacked diagnostics v_refusal = pg_exception_detail;
        full_channel := v_refusal::json ->> 'channel';
        max_size := v_refusal::json ->> 'max_size';
        size := v_refusal::json ->> 'size';
    end;
    return next;
end $$;

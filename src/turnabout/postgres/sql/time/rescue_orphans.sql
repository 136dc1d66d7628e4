-- Give orphans their place: messages that stand nowhere, because a transaction was prepared before
-- a crash of the server and committed after it. Looks at a share of all messages: the oldest, since
-- an orphan grows old while its queue moves, or those from a random id on. Answers with how many.
create or replace function turnabout.rescue_orphans(
    now_ms bigint, from_id bigint default null, most int default 10000
) returns int language plpgsql as $$  -- plans: pinned
declare
    v_from bigint := coalesce(from_id, case when random() < 0.5 then 0 else (
        random() * pg_sequence_last_value('turnabout.message_id_seq'::regclass)
    )::bigint end);
    v_orphans bigint[] := turnabout.orphans(array(
        select m.id from turnabout.message m where m.id >= v_from order by m.id limit most
    ));
begin
    if cardinality(v_orphans) > 0 then
        v_orphans := array(
            select m.id from turnabout.message m where m.id = any (v_orphans) for update skip locked
        );
        -- Nobody else can give them a place now: have they one meanwhile?
        v_orphans := turnabout.orphans(v_orphans);
        perform turnabout.give_places(q, array_agg(m.id), now_ms)
        from turnabout.message m join turnabout.queue q on q.id = m.queue_id
        where m.id = any (v_orphans) group by q.id, q.*;
    end if;
    return cardinality(v_orphans);
end $$;

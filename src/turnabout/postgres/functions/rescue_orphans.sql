-- Give orphans their place: messages that stand nowhere, because a transaction was prepared before
-- a crash of the server and committed after it. Looks at a share of all messages: the oldest, since
-- an orphan grows old while its queue moves, or those from a random id on. Answers with how many.
-- plans: pinned
create or replace function turnabout.rescue_orphans(
    queue turnabout.queue, now_ms bigint, from_id bigint default null, most int default 10000
) returns int
language plpgsql as $$
declare
    v_from bigint := coalesce(from_id, case when random() < 0.5 then 0 else (
        random() * pg_sequence_last_value('turnabout.message_id_seq'::regclass)
    )::bigint end);
    v_orphans bigint[] := turnabout.orphans(queue.id, v_from, most);
begin
    if cardinality(v_orphans) = 0 then
        return 0;
    end if;
    v_orphans := array(
        select m.id from turnabout.message m where m.id = any (v_orphans) for update skip locked
    );
    -- Nobody else can give them a place now: have they one meanwhile?
    v_orphans := array(
        select t.id from unnest(v_orphans) t (id)
        intersect
        select s.id from unnest(turnabout.orphans(queue.id, v_from, most)) s (id)
    );
    if cardinality(v_orphans) > 0 then
        perform turnabout.line_up(queue, v_orphans, now_ms);
    end if;
    return cardinality(v_orphans);
end
$$;

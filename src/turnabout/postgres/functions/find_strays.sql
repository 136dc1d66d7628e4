-- Messages that stand nowhere, as a transaction leaves them that was prepared before a crash of the
-- server and committed after it, get their place. Of a share of all messages: the oldest, since
-- that is what a stray becomes in a queue that moves, or those from a random id on. Answers with
-- how many.
-- plans: pinned
create or replace function turnabout.find_strays(
    queue turnabout.queue, now_ms bigint, from_id bigint default null, most int default 10000
) returns int
language plpgsql as $$
declare
    v_from bigint := coalesce(from_id, case when random() < 0.5 then 0 else (
        random() * pg_sequence_last_value('turnabout.message_id_seq'::regclass)
    )::bigint end);
    v_strays bigint[] := turnabout.strays(queue.id, v_from, most);
begin
    if cardinality(v_strays) = 0 then
        return 0;
    end if;
    v_strays := array(
        select m.id from turnabout.message m where m.id = any (v_strays) for update skip locked
    );
    -- Nobody else can give them a place now: have they one meanwhile?
    v_strays := array(
        select t.id from unnest(v_strays) t (id)
        intersect
        select s.id from unnest(turnabout.strays(queue.id, v_from, most)) s (id)
    );
    if cardinality(v_strays) > 0 then
        perform turnabout.line_up(queue, v_strays, now_ms);
    end if;
    return cardinality(v_strays);
end
$$;

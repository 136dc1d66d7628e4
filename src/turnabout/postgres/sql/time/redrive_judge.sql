-- Lock messages of a redrive, except those held by others, and judge them as they are now: the ones
-- to `move`, at most `most`, and the number that stay. `last_id`: where it stopped with enough.
create or replace function turnabout.redrive_judge(
    redrive turnabout.redrive, ids bigint[], most int,
    out move bigint[], out skipped int, out last_id bigint
) language plpgsql as $$
declare
    v_held bigint[] := turnabout.lock_waiting(redrive.queue_id, ids, 1);
    v_one record;
begin
    move := '{}'; skipped := 0;
    for v_one in
        select m.id, turnabout.redrive_target(redrive, m.channel, m.origin) as target
        from turnabout.message m where m.id = any (v_held) order by m.id
    loop
        continue when v_one.target is null;
        if v_one.target = '' then
            skipped := skipped + 1;
            continue;
        end if;
        move := move || v_one.id;
        if cardinality(move) >= most then
            last_id := v_one.id;
            exit;
        end if;
    end loop;
end $$;

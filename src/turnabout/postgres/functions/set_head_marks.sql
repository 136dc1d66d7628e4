-- Mark the heads of channels that are hidden behind many dead entries, so that the next receive
-- jumps there.
--
-- While an old snapshot is open (a backup, a forgotten transaction) vacuum can remove nothing, and
-- the entries of finished messages pile up before the live ones of their channel: every receive
-- would walk them all. A head mark is a row with a negative id, so it sorts before its channel's
-- messages of that priority, and dead marks sort behind it; `at` holds its mark, the id below which
-- nothing was live. What comes back below a mark (returned messages, late commits) is found again:
-- lower_head_marks sets a lower one at once where it knows, and maintenance looks each second.
--
-- This is the second look: entries that the first one found dead are passed over by now, and what
-- they still cost are their pages, until vacuum comes.
create or replace function turnabout.set_head_marks(queue_id int, start text, visits int)
returns void
language plpgsql as $$
declare
    v_place text collate "C" := start;
    v_lap int := 0;
    v_before bigint;
    v_found record;
    v_live bigint;
begin
    for i in 1 .. visits loop
        v_before := turnabout.line_walked();
        select r.channel, r.priority, r.id, r.at into v_found
        from turnabout.ready r
        where r.queue_id = set_head_marks.queue_id and not r.limited and r.channel > v_place
        order by r.channel, r.priority, r.id
        limit 1;
        if not found and v_lap = 0 then
            v_lap := 1;
            select r.channel, r.priority, r.id, r.at into v_found
            from turnabout.ready r
            where r.queue_id = set_head_marks.queue_id and not r.limited
            order by r.channel, r.priority, r.id
            limit 1;
        end if;
        exit when v_found.channel is null or v_lap = 1 and v_found.channel > start collate "C";
        v_place := v_found.channel;
        if v_found.id < 0 then
            v_before := turnabout.line_walked();
        end if;
        -- What others hold is passed over: an open receive must not keep the mark back. If it is
        -- rolled back, maintenance finds its messages behind the mark. The lock only asks, and ends
        -- at once: another that sets head marks would take its message for one that is held, and
        -- hide it; and no transaction may hold what it does not lease.
        begin
            select r.id into v_live
            from turnabout.ready r
            where r.queue_id = set_head_marks.queue_id and not r.limited
                and r.channel = v_found.channel and r.id + 0 > 0
                and (r.priority, r.id) >= (
                    v_found.priority, case when v_found.id < 0 then v_found.at else v_found.id end)
            order by r.priority, r.id
            limit 1
            for share skip locked;
            if v_live is not null then
                raise sqlstate 'TBM00';
            end if;
        exception when sqlstate 'TBM00' then
        end;
        if v_live is not null and turnabout.line_walked() > v_before + 64 then
            if v_found.id < 0 then
                delete from turnabout.ready r
                where r.ctid = (
                    select b.ctid from turnabout.ready b
                    where b.queue_id = set_head_marks.queue_id and not b.limited
                        and b.channel = v_found.channel and b.priority = v_found.priority
                        and b.id = v_found.id
                    for update skip locked
                );
                continue when not found;
            end if;
            perform turnabout.insert_head_mark(
                set_head_marks.queue_id, v_found.channel, v_found.priority, v_live);
        end if;
    end loop;
end
$$;

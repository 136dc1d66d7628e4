-- Mark the heads of channels that are hidden behind many dead entries, so that the next receive
-- jumps there: of those channels from which these messages were just `taken`.
--
-- While an old snapshot is open (a backup, a forgotten transaction) vacuum can remove nothing, and
-- the entries of finished messages pile up before the live ones of their channel: every receive
-- would walk them all. A head mark is a row with a negative id, so it sorts before its channel's
-- messages of that priority, and dead marks sort behind it; `at` holds its mark, the id below which
-- nothing was live. What comes back below a mark (returned messages, late commits) is found again:
-- lower_head_marks sets a lower one at once where it knows, and maintenance looks each second.
--
-- Where nothing live is left, the mark is what was taken: what is sent later lies behind it. It
-- stays below by some numbers, so that senders that just commit need not wait for maintenance.
-- This is the second look: entries that the first one found dead are passed over by now, and what
-- they still cost are their pages, until vacuum comes. A channel that comes and goes gets no mark.
create or replace function turnabout.set_head_marks(queue_id int, taken bigint[]) returns void
language plpgsql as $$
declare
    v_taken record; v_before bigint; v_found record; v_live bigint; v_mark bigint;
begin
    for v_taken in
        select distinct on (m.channel) m.channel, m.priority, m.id from turnabout.message m
        where m.id = any (taken) order by m.channel, m.priority, m.id
    loop
        v_before := turnabout.line_walked();
        select r.id, r.priority, case when r.id < 0 then r.at else r.id end as since into v_found
        from turnabout.ready r
        where r.queue_id = set_head_marks.queue_id and not r.limited and r.channel = v_taken.channel
        order by r.priority, r.id limit 1;
        if v_found.id < 0 then v_before := turnabout.line_walked(); end if;
        -- What others hold is passed over: an open receive must not keep the mark back. If it is
        -- rolled back, maintenance finds its messages behind the mark. The lock only asks, and ends
        -- at once: another that sets head marks would take its message for one that is held, and
        -- hide it; and no transaction may hold what it does not lease.
        begin
            {{line_from
                what = e.id into v_live;
                queue = set_head_marks.queue_id;
                name = v_taken.channel;
                place = v_found}}
            order by e.priority, e.id limit 1
            for share skip locked;
            if v_live is not null then raise sqlstate 'TBM00'; end if;
        exception when sqlstate 'TBM00' then
        end;
        v_mark := coalesce(v_live, v_taken.id - 32);
        continue when turnabout.line_walked() <= v_before + 64 or v_mark <= 0
            or v_live is null and v_found.priority <> v_taken.priority;
        if v_found.id < 0 then
            continue when v_mark <= v_found.since;
            delete from turnabout.ready r where r.ctid = (
                select b.ctid from turnabout.ready b
                where b.queue_id = set_head_marks.queue_id and not b.limited
                    and b.channel = v_taken.channel and b.priority = v_found.priority
                    and b.id = v_found.id
                for update skip locked
            );
            continue when not found;
        end if;
        perform turnabout.insert_head_mark(
            set_head_marks.queue_id, v_taken.channel, coalesce(v_found.priority, v_taken.priority),
            v_mark);
    end loop;
end $$;

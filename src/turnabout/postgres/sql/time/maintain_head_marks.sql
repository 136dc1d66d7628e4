-- Lower head marks that hide something live (a late commit, a receive that was rolled back), and
-- drop those that a newer one replaces or that save little, as vacuum has come. The more there are,
-- the sooner they go: receives pass those of empty channels, too. Without this a message could stay
-- hidden: P1 depends on it.
create or replace function turnabout.maintain_head_marks(queue_id int) returns void
language plpgsql as $$
declare
    v_mark record; v_hidden bigint; v_before bigint;
    v_nr int := 0;
begin
    for v_mark in
        select r.ctid as place, r.id, r.channel, r.priority, r.at from turnabout.ready r
        where r.queue_id = maintain_head_marks.queue_id and r.expires_at = 0 limit 2000
        for update skip locked
    loop
        v_nr := v_nr + 1;
        v_before := turnabout.line_walked();
        select x.id into v_hidden from (
            select r.id, r.priority from turnabout.ready r
            where r.queue_id = maintain_head_marks.queue_id and not r.limited
                and r.channel = v_mark.channel
                and (r.priority, r.id) >= (v_mark.priority, 1::bigint)
                and (r.priority, r.id) < (v_mark.priority, v_mark.at)
            order by r.priority, r.id limit 1
        ) x;
        if v_hidden is not null then
            perform turnabout.insert_head_mark(
                maintain_head_marks.queue_id, v_mark.channel, v_mark.priority, v_hidden);
        end if;
        if v_hidden is not null or turnabout.line_walked() <= v_before + 64 or exists (
            select from turnabout.ready r
            where r.queue_id = maintain_head_marks.queue_id and not r.limited
                and r.channel = v_mark.channel and r.priority = v_mark.priority and r.id < v_mark.id
        ) or random() < (v_nr / 2000.0) ^ 2 then
            delete from turnabout.ready r where r.ctid = v_mark.place;
        end if;
    end loop;
end $$;

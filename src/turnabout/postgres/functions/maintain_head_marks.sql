-- Lower the head marks that something live lies behind (a late commit, a receive that was rolled
-- back), and drop those that a newer one replaces, or that are old: where one is still needed,
-- receive sets it again. Without this look a message could stay hidden: P1 rests on it.
create or replace function turnabout.maintain_head_marks(queue_id int, now_ms bigint) returns void
language plpgsql as $$
declare
    v_mark record;
    v_hidden bigint;
begin
    for v_mark in
        select m.id, m.channel, m.priority, m.at, m.sent_at from turnabout.message m
        where m.queue_id = maintain_head_marks.queue_id and m.id < 0
        order by m.id
        limit 2000
        for update skip locked
    loop
        select x.id into v_hidden
        from (
            select m.id, m.priority from turnabout.message m
            where m.queue_id = maintain_head_marks.queue_id and m.channel = v_mark.channel
                and m.status = 0 and not m.limited
                and (m.priority, m.id) >= (v_mark.priority, 1::bigint)
                and (m.priority, m.id) < (v_mark.priority, v_mark.at)
            order by m.priority, m.id
            limit 1
        ) x;
        if v_hidden is not null then
            perform turnabout.insert_head_mark(
                maintain_head_marks.queue_id, v_mark.channel, v_mark.priority, v_hidden);
        end if;
        if v_hidden is not null or v_mark.sent_at < maintain_head_marks.now_ms - 30000 or exists (
            select from turnabout.message m
            where m.queue_id = maintain_head_marks.queue_id and m.channel = v_mark.channel
                and m.status = 0 and not m.limited and m.priority = v_mark.priority
                and m.id < v_mark.id
        ) then
            delete from turnabout.message m where m.id = v_mark.id;
        end if;
    end loop;
end
$$;

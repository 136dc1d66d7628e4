-- A waiting message that the caller has locked takes new content and a new due time. One that waits
-- for a person goes on doing so.
create or replace function turnabout.replace_message(
    queue turnabout.queue, id bigint, payload bytea, content_type text, headers text,
    priority smallint, delay_ms bigint, expires_at bigint, now_ms bigint
) returns void
language plpgsql as $$
begin
    update turnabout.message m
    set payload = replace_message.payload,
        content_type = replace_message.content_type,
        headers = replace_message.headers,
        priority = replace_message.priority,
        expires_at = replace_message.expires_at,
        status = case when delay_ms > 0 and not queue.fifo then 1 else 0 end,
        at = case when m.at >= 9000000000000000 then m.at else now_ms + delay_ms end
    where m.id = replace_message.id;
    perform turnabout.insert_wakes(queue, array[replace_message.id]);
    perform turnabout.lower_head_marks(queue.id, array[replace_message.id]);
end
$$;

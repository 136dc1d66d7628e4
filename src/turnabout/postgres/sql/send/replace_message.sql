-- A waiting message whose place the caller has locked takes new content and a new due time. One
-- that waits for a person goes on doing so. It gets a new entry in its line: a receiver that
-- finds the old one would read the old content.
create or replace function turnabout.replace_message(
    queue turnabout.queue, id bigint, payload bytea, content_type text, headers text,
    priority smallint, delay_ms bigint, expires_at bigint, now_ms bigint
) returns void language plpgsql as $$
begin
    perform turnabout.take_out_messages(queue.id, array[replace_message.id]);
    update turnabout.message m set payload = replace_message.payload,
        content_type = nullif(replace_message.content_type, 'application/octet-stream'),
        headers = replace_message.headers, priority = replace_message.priority,
        expires_at = replace_message.expires_at,
        at = case
            when m.at >= 9000000000000000 then m.at
            when delay_ms > 0 then now_ms + delay_ms
        end
    where m.id = replace_message.id;
    perform turnabout.give_places(queue, array[replace_message.id], now_ms);
end $$;

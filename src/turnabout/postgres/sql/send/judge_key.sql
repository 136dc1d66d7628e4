-- Decide about a send with a dedup key, by the key's entry, whose lock the caller has: it is `new`,
-- or a `duplicate` of the message with that id, or to `replace` the content of that message.
--
-- If it matters that the message still waits, its place is locked: no receiver starts on it before
-- this transaction has ended. So work that a suppressed send stands for never begins before its
-- time. A redriven message has left the queue before, and stands for no other.
create or replace function turnabout.judge_key(
    queue_id int, scope text, key text, mode text, now_ms bigint, out id bigint, out what text
) language plpgsql as $$
declare
    v_until bigint; v_holds boolean; v_attempt int;
begin
    what := 'new';
    select d.message_id, d.until_ms into id, v_until from turnabout.dedup d
    where d.queue_id = judge_key.queue_id and d.scope = judge_key.scope and d.key = judge_key.key;
    if id is null then return; end if;
    if mode in ('window', 'sliding') then
        v_holds := now_ms < v_until;
    elsif mode = 'until_finished' then
        v_holds := exists (
            select from turnabout.message m
            where m.id = judge_key.id and m.queue_id + 0 = judge_key.queue_id
                and m.origin is null and (
                    m.expires_at is null or m.expires_at > now_ms
                    or turnabout.place_of(judge_key.queue_id, m.id) = 'leased'
                )
        );
    else
        select m.attempt into v_attempt
        from unnest(turnabout.lock_waiting(judge_key.queue_id, array[id])) w (id)
        join turnabout.message m on m.id = w.id
        where m.origin is null and (m.expires_at is null or m.expires_at > now_ms);
        v_holds := case when mode = 'until_started' then v_attempt = 0 else v_attempt >= 0 end;
    end if;
    if v_holds then what := case when mode = 'latest' then 'replace' else 'duplicate' end; end if;
end $$;

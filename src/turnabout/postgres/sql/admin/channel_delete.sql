-- Cancel up to `most` waiting messages of a channel; when none is left, clear its policy. Leases
-- run on. Answers with how many; call again until there are none.
create or replace function turnabout.channel_delete(
    queue text, channel turnabout.channel_name, most int default 10000,
    now_ms turnabout.instant default null
) returns int language plpgsql as $$  -- plans: free
declare
    v_queue turnabout.queue := turnabout.find_queue(channel_delete.queue);
    v_count int := turnabout.purge(
        channel_delete.queue, channel_delete.channel, null, channel_delete.most,
        channel_delete.now_ms);
begin
    if v_count = 0 and turnabout.policy_of(v_queue.id, channel_delete.channel) is not null then
        perform turnabout.policy_set(
            channel_delete.queue, channel_delete.channel, '{}', true,
            now_ms => channel_delete.now_ms);
    end if;
    return v_count;
end $$;

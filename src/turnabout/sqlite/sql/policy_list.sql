-- Policy list: channels with a policy of their own.

-- name: policies
-- Their rows, by name.
select * from turnabout_channel
where queue_id = :queue and (:after is null or name > :after)
  and (paused = 1 or paused_until is not null or max_concurrency is not null
       or rate_count is not null or max_size is not null or weight is not null
       or pause_reason is not null)
order by name limit ifnull(:most, -1);

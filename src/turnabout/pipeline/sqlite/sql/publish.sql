-- Publish: what was staged is sent, once for a batch.

-- name: published
-- Whether the batch was published, and with how many.
select messages from turnabout_sink_batch where sink = :sink and batch = :batch;

-- name: newest
-- The last batch of the sink.
select max(batch) from turnabout_sink_batch where sink = :sink;

-- name: queues
-- The queues that these attempts have staged messages for: how many, and whether any has a key.
select queue, count(*), max(dedup_key is not null) from turnabout_stage
  indexed by turnabout_stage_attempt
where attempt in (select value from json_each(:attempts))
group by queue;

-- name: send
-- What an attempt has staged for these queues, in order, as `send` inserts it where nothing limits
-- it. (`or fail` as in send.sql.)
insert or fail into turnabout_message (
  queue_id, status, limited, at, priority, sent_at, headers, content_type, expires_at, channel,
  payload
)
select q.id, ifnull(s.delay_ms, q.delay_ms) > 0, 0,
  case
    when ifnull(s.delay_ms, q.delay_ms) > 0 then :now + ifnull(s.delay_ms, q.delay_ms)
    else 0
  end,
  s.priority, :now, s.headers, s.content_type, :now + ifnull(s.ttl_ms, q.ttl_ms), s.channel,
  s.payload
from turnabout_stage s indexed by turnabout_stage_attempt
cross join turnabout_queue q on q.name = s.queue
where s.attempt = :attempt and q.name in (select value from json_each(:queues))
order by s.id;

-- name: staged
-- What an attempt has staged, in order, but for these queues.
select queue, headers, payload, content_type, channel, priority, delay_ms, ttl_ms, dedup_key,
  dedup_mode, dedup_window_ms, dedup_scope
from turnabout_stage indexed by turnabout_stage_attempt
where attempt = :attempt and queue not in (select value from json_each(:queues))
order by id;

-- name: note
-- The batch is published.
insert into turnabout_sink_batch (sink, batch, messages, published_at)
values (:sink, :batch, :messages, :now);

-- name: forget
-- Its sink's earlier batches: a batch before the newest is refused, whether it is noted or not.
delete from turnabout_sink_batch where sink = :sink and batch < :batch;

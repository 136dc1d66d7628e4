-- Publish: what was staged is sent, once for a batch.

-- name: published
-- Whether the batch was published, and with how many.
select messages from turnabout_sink_batch where sink = :sink and batch = :batch;

-- name: newest
-- The last batch of the sink.
select max(batch) from turnabout_sink_batch where sink = :sink;

-- name: count
-- How many messages these attempts have staged.
select coalesce(sum(messages), 0) from turnabout_stage indexed by turnabout_stage_attempt
where attempt in (select value from json_each(:attempts));

-- name: staged
-- What an attempt has staged, of each queue in order.
select content from turnabout_stage indexed by turnabout_stage_attempt where attempt = :attempt
order by queue, id;

-- name: note
-- The batch is published.
insert into turnabout_sink_batch (sink, batch, messages, published_at)
values (:sink, :batch, :messages, :now);

-- name: forget
-- Its sink's earlier batches: a batch before the newest is refused, whether it is noted or not.
delete from turnabout_sink_batch where sink = :sink and batch < :batch;

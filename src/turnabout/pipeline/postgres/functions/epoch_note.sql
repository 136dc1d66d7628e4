-- Record the messages of an epoch in parts, from 0: of one queue each, in its order; as even as may
-- be, or all of a channel in one, as always of a FIFO queue. A queue has parts by what it gave.
create or replace function turnabout_pipeline.epoch_note(
    subscription text, epoch bigint, queues text[], ids bigint[], attempts int[],
    priorities smallint[], channels text[], parts int, by_channel boolean
) returns void language plpgsql as $$
begin
    with placed as (
        select t.*, row_number() over w - 1 as nr, count(*) over (partition by t.queue) as count
        from unnest(queues, ids, attempts, priorities, channels)
            t (queue, id, attempt, priority, channel)
        window w as (partition by t.queue order by t.priority, t.id)
    ),
    cut as (
        select c.*, case
            when by_channel or c.fifo then turnabout.shard_of(c.channel, c.pieces)
            else c.nr * c.pieces / c.count
        end as piece
        from (
            select p.*,
                greatest(1, round(parts::numeric * p.count / cardinality(epoch_note.ids)))::int
                    as pieces,
                q.fifo
            from placed p left join turnabout.queue q on q.name = p.queue collate "C"
        ) c
    )
    insert into turnabout.epoch_part (subscription, epoch, part, queue_id, queue, ids, attempts)
    select epoch_note.subscription, epoch_note.epoch, p.part,
        (select q.id from turnabout.queue q where q.name = p.queue collate "C"), p.queue, p.ids,
        p.attempts
    from (
        select c.queue, row_number() over (order by c.queue, c.piece) - 1 as part,
            array_agg(c.id order by c.priority, c.id) as ids,
            array_agg(c.attempt order by c.priority, c.id) as attempts
        from cut c group by c.queue, c.piece
    ) p;
end $$;

-- Send what attempts have staged: queue by queue, by name, so that two publishers lock dedup keys
-- in one order; in each the attempts as they are named, their messages as they were staged. In
-- pieces, so that no array grows with the batch. A refusal is SQLSTATE PQ429.
create or replace function turnabout_pipeline.publish_staged(
    attempts text[], now_ms bigint, out duplicates bigint, out notified text[]
)
language plpgsql as $$
declare
    v_piece record;
    v_sent record;
begin
    duplicates := 0;
    notified := '{}';
    for v_piece in
        select p.queue,
            array_agg(p.payload order by p.at, p.nr) as payloads,
            array_agg(p.content_type order by p.at, p.nr) as content_types,
            array_agg(p.channel order by p.at, p.nr) as channels,
            array_agg(p.priority order by p.at, p.nr) as priorities,
            array_agg(p.delay order by p.at, p.nr) as delays,
            array_agg(p.headers order by p.at, p.nr) as headers,
            array_agg(p.ttl order by p.at, p.nr) as ttls,
            case when bool_or(p.dedup_key is not null)
                then array_agg(p.dedup_key order by p.at, p.nr) end as dedup_keys,
            array_agg(p.dedup_mode order by p.at, p.nr) as dedup_modes,
            array_agg(p.dedup_window order by p.at, p.nr) as dedup_windows,
            array_agg(p.dedup_scope order by p.at, p.nr) as dedup_scopes
        from (
            select s.*, a.at,
                row_number() over w / 10000 + sum(octet_length(s.payload)) over w / 67108864
                    as piece
            from unnest(publish_staged.attempts) with ordinality a (attempt, at)
            join turnabout.stage s on s.attempt = a.attempt
            window w as (partition by s.queue order by a.at, s.nr)
        ) p
        group by p.queue, p.piece
        order by p.queue, p.piece
    loop
        select s.* into v_sent
        from turnabout.send(
            queue => v_piece.queue,
            payloads => v_piece.payloads,
            channels => v_piece.channels,
            priorities => v_piece.priorities,
            delays => v_piece.delays,
            header_texts => v_piece.headers,
            content_types => v_piece.content_types,
            now_ms => publish_staged.now_ms,
            ttls => v_piece.ttls,
            dedup_keys => v_piece.dedup_keys,
            dedup_modes => v_piece.dedup_modes,
            dedup_windows => v_piece.dedup_windows,
            dedup_scopes => v_piece.dedup_scopes) s;
        if v_sent.ids is null then
            raise exception 'full' using errcode = 'PQ429', detail = json_build_object(
                'full_channel', v_sent.full_channel, 'max_size', v_sent.max_size,
                'size', v_sent.size);
        end if;
        duplicates := duplicates + coalesce(cardinality(v_sent.duplicates), 0);
        if v_piece.queue <> all (notified) then
            notified := notified || v_piece.queue::text;
        end if;
    end loop;
end
$$;

-- The instant before which a queue's history is swept row by row. If no queue keeps it for longer,
-- whole days are dropped instead (maintain_days), and rows only if that has not been possible for
-- two more days.
create or replace function turnabout.history_before(keeps_ms bigint, longest bigint, now_ms bigint)
returns bigint language sql immutable parallel safe as $$
    select now_ms - keeps_ms
        - case when keeps_ms >= 86400000 and keeps_ms = longest then 172800000 else 0 end
$$;

-- Keep them in history, without payload and result.
kept as (
    {{history
        leased_at = h.leased_at;
        at = coalesce($now::bigint, turnabout.clock_ms());
        attempt = $attempt::int;
        outcome = 1;
        content = null, null, null, null, null;
        ended = ended e cross join held h}}
),

-- Keep them in history, without payload and result.
kept as (
    {{history
        leased_at = (select h.leased_at from held h);
        at = (select h.now from held h);
        attempt = $attempt::int;
        outcome = 1;
        content = null, null, null, null, null;
        ended = ended e}}
),

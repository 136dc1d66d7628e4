-- The errors of a message's attempts with one more: of more than ten the first and the last nine.
create or replace function turnabout.with_error(
    errors text, attempt int, at_ms bigint, error text, leased_at bigint, worker text
) returns text language sql immutable parallel safe as $$
    select (case when jsonb_array_length(e.kept) < 10 then e.kept else e.kept - 1 end
        || jsonb_build_object(
            'attempt', attempt, 'at', at_ms, 'error', error, 'leased_at', leased_at,
            'worker', worker))::text
    from (select coalesce(errors::jsonb, '[]')) e (kept)
$$;

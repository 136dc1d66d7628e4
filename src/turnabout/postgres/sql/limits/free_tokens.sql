-- Tokens in a bucket now, by the generic cell rate algorithm: `tat_us` is when the bucket will be
-- full, an interval per delivery on; null interval: no rate. Source: ATM Forum TM 4.0, section 4.4.
create or replace function turnabout.free_tokens(
    now_us bigint, tat_us bigint, interval_us bigint, burst int
) returns int language sql immutable parallel safe as $$
    select case when interval_us is null then 2147483647
        else greatest(
            0, burst - (greatest(tat_us - now_us, 0) + interval_us - 1) / interval_us
        )::int
    end
$$;

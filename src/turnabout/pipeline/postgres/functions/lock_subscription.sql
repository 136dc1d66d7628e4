-- Lock the subscription for its reader; the row as it is, without a generation if the caller is not
-- its reader any more: then `owner` is, or nobody (''). What the lock protects is to be read in the
-- next statement.
create or replace function turnabout_pipeline.lock_subscription(
    subscription text, generation bigint, now_ms bigint
) returns turnabout.subscription language plpgsql as $$
declare
    v_row turnabout.subscription;
begin
    perform turnabout.require_places();
    select s.* into v_row from turnabout.subscription s
    where s.name = lock_subscription.subscription for update;
    if not found or v_row.generation <> lock_subscription.generation then
        v_row.generation := null;
        v_row.owner := coalesce(v_row.owner, '');
        return v_row;
    end if;
    update turnabout.subscription s set seen_at = now_ms
    where s.name = lock_subscription.subscription;
    return v_row;
end $$;

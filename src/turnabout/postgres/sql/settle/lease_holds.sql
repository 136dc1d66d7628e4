-- Whether a lease (its ids and attempts) covers all these messages, each with that attempt. Most
-- often they are exactly as they were handed out, or a single one.
create or replace function turnabout.lease_holds(
    held bigint[], held_attempts int[], ids bigint[], attempt int
) returns boolean language plpgsql immutable as $$
begin
    if held = ids then
        return attempt = all (held_attempts);
    elsif cardinality(ids) = 1 then
        return coalesce(held_attempts[array_position(held, ids[1])] = attempt, false);
    end if;
    return not exists (
        select t.id from unnest(ids) t (id)
        except
        select h.id from unnest(held, held_attempts) h (id, attempt)
        where h.attempt = lease_holds.attempt
    );
end $$;

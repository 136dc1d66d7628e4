-- Those of these messages that have no place: neither ready, nor scheduled, nor leased.
create or replace function turnabout.orphans(ids bigint[]) returns bigint[]
language plpgsql as $$  -- plans: pinned
begin
    return array(
        select u.id from (
            select m.id, m.attempt + 1 from unnest(ids) o (id)
            join turnabout.message m on m.id = o.id where not exists ({{waiting m = m}})
            except
            select t.id, t.attempt from turnabout.lease l
            cross join unnest(l.ids, l.attempts) t (id, attempt)
        ) u (id)
    );
end $$;

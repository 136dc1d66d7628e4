-- When leases began, in their order.
create or replace function turnabout.leased_times(leases bigint[]) returns bigint[]
language plpgsql as $$
begin
    return array(
        select (select l.leased_at from turnabout.lease l where l.id = t.lease)
        from unnest(leases) with ordinality t (lease, nr) order by t.nr
    );
end $$;

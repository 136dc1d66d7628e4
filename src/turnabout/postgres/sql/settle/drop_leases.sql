-- Remove the leases of these receipts, whose messages are all settled, unless a lease has other
-- messages. Leases held by others stay until they end. `leases`: one per receipt, or one for all.
create or replace function turnabout.drop_leases(leases bigint[], receipts int) returns void
language plpgsql as $$
begin
    if cardinality(leases) = 1 then
        delete from turnabout.lease l where l.ctid = (
            select e.ctid from turnabout.lease e
            where e.id = leases[1] and cardinality(e.ids) = receipts for update skip locked
        );
        return;
    end if;
    delete from turnabout.lease l where l.ctid = any (array(
        select e.ctid
        from (select t.lease, count(*) as count from unnest(leases) t (lease) group by t.lease) c
        join turnabout.lease e on e.id = c.lease and cardinality(e.ids) = c.count
        for update of e skip locked
    ));
end $$;

-- Lock the messages whose receipts are current leases of the queue; answers with their ids. A
-- single attempt holds for all ids; `leases` as leases_of answers.
--
-- Rows that another transaction holds are not waited for, so that no two transactions can wait for
-- each other, whatever they touch in whatever order. They are tried again a few times, since most
-- such holders are gone within milliseconds; then the receipt counts as lost.
--
-- `+ 0` keeps that column out of the choice of an index: the key is the way to a receipt.
create or replace function turnabout.lock_leases(
    queue_id int, ids bigint[], attempts int[], leases bigint[]
) returns bigint[] language plpgsql as $$
declare
    v_held bigint[]; v_there int;
begin
    for i in 0 .. 5 loop
        select array_agg(r.id) into v_held from (
            select m.id from unnest(ids, attempts, leases) t (id, attempt, lease)
            join turnabout.message m on m.id = t.id
            where m.attempt = coalesce(t.attempt, attempts[1]) - 1 and t.lease is not null
                and m.queue_id + 0 = lock_leases.queue_id
            for update of m skip locked
        ) r;
        if cardinality(v_held) = cardinality(ids) or i = 5 then exit; end if;
        -- Locked by us already, or really lost? Only what others hold is worth another try.
        -- (Counted: to look each up in the list would take their number squared.)
        select count(*) into v_there from unnest(ids, attempts, leases) t (id, attempt, lease)
        join turnabout.message m on m.id = t.id
        where m.attempt = coalesce(t.attempt, attempts[1]) - 1 and t.lease is not null
            and m.queue_id + 0 = lock_leases.queue_id;
        exit when v_there <= coalesce(cardinality(v_held), 0);
        perform pg_sleep(0.002 * (1 << i));
    end loop;
    return coalesce(v_held, '{}');
end $$;

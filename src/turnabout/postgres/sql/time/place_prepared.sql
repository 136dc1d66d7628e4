-- A rebuild leaves out the messages of prepared transactions, and can't see those they will add. It
-- has noted the transactions; when one has ended, give places to the messages it left.
create or replace function turnabout.place_prepared(now_ms bigint) returns void
language plpgsql as $$
begin
    if exists (select from turnabout.recent_change c where c.queue = '')
        and pg_try_advisory_xact_lock(hashtextextended('turnabout.place_prepared', 0))
    then
        update turnabout.recent_change c set began = array(
            select p.transaction::text from pg_prepared_xacts p
            where p.transaction::text = any (c.began)
        )
        where c.queue = '' and not c.began <@ array(
            select p.transaction::text from pg_prepared_xacts p
        );
        if found then
            perform turnabout.rescue_orphans(now_ms, 0, 2147483647);
            delete from turnabout.recent_change c where c.queue = '' and c.began = '{}';
        end if;
    end if;
end $$;

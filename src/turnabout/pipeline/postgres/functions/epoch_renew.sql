-- Let the leases of recorded epochs run until an instant; never shorter than they run already.
-- Answers with how many messages run, and how many are lost.
--
-- A lease is renewed as a whole, or, where the sweep is just ending it, not at all: no message has
-- to be locked.
create or replace function turnabout_pipeline.epoch_renew(
    subscription text, first_epoch bigint, last_epoch bigint, until_ms bigint, out messages int,
    out lost int
) language plpgsql as $$
begin
    update turnabout.lease l set until = greatest(l.until, until_ms) where l.id = any (array(
        select e.id from turnabout.epoch_part p
        join turnabout.lease e on e.id = p.lease
        where p.subscription = epoch_renew.subscription
            and p.epoch between first_epoch and last_epoch
        for update of e skip locked
    ));
    update turnabout.epoch e set until = until_ms
    where e.subscription = epoch_renew.subscription and e.epoch between first_epoch and last_epoch
        and e.until < until_ms;
    select count(m.held), count(*) - count(m.held) into messages, lost from turnabout.epoch_part p
    left join turnabout.lease l on l.id = p.lease and l.until >= until_ms
    cross join lateral unnest(p.ids, p.attempts) t (id, attempt)
    left join lateral (
        select 1 as held from turnabout.message r
        where r.id = t.id and r.attempt = t.attempt - 1 and r.queue_id + 0 = p.queue_id
            and l.id is not null
        offset 0
    ) m on true
    where p.subscription = epoch_renew.subscription and p.epoch between first_epoch and last_epoch;
end $$;

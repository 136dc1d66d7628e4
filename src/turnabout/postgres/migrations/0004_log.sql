-- The history in the order of commits, and what was removed from it.

-- The log is the history in the order of commits. What has no transaction is from before there was
-- that column: older than anything.
update turnabout.history set xid = '3' where xid is null;
create index history_log on turnabout.history (xid, id);

-- Positions up to which something was removed from the log: the highest one counts. Only inserted
-- and deleted, so nobody waits for anybody.
create table turnabout.history_floor (
    xid xid8 not null,
    id bigint not null
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

create index history_floor_log on turnabout.history_floor (xid, id);

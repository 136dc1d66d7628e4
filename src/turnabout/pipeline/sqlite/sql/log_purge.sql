-- Log purge: the oldest rows go.

-- name: last
-- The place of the last of the oldest rows up to a place, at most :most.
select max(seq) from (
  select seq from turnabout_history
  where queue_id = :queue and seq <= :upto order by seq limit :most
);

-- name: purge
-- Rows up to a place.
delete from turnabout_history where queue_id = :queue and seq <= :upto;

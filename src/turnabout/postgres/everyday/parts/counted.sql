-- How many are done.
counted as (insert into turnabout.tally (queue_id, done) {done})

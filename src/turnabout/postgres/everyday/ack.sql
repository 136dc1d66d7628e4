-- End one message as done, where nothing special is kept of it, and its receipt is the one of its
-- lease, which says so; else nothing, and no row is the answer: then sql/settle/ack.sql does it.
with {{settled_one}}
select null::text[] from ended

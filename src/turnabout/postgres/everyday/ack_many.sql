-- End messages of one lease as done, or none of them, as everyday/ack.sql does one. If not each of
-- them is held, it fails: then nothing has happened, and sql/settle/ack.sql tells.
with {{settled_many}}
select null::text[] from ended limit 1

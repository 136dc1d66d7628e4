-- A message as receive hands it out, with the story of a dead one. Older sets of functions return
-- turnabout.delivery, so that type stays as it is.
create type turnabout.handout as (
    id bigint,
    attempt int,
    channel text,
    priority smallint,
    payload bytea,
    content_type text,
    headers text,
    state bytea,
    failures int,
    crashes int,
    sent_at bigint,
    origin text,
    at bigint,       -- the lease's end
    lease_ms bigint
);

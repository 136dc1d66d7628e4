-- Which of `shards` parts a channel belongs to: the first 32 bits of its MD5, modulo. MD5 because
-- SQLite's side can compute the same; nothing here needs it to be hard to forge.
create or replace function turnabout.shard_of(channel text, shards int) returns int
language sql immutable parallel safe as $$
    select ((('x' || substr(md5(channel), 1, 8))::bit(32)::bigint & 4294967295) % shards)::int
$$;

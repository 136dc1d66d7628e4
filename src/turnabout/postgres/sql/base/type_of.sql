-- A message's content type: the default one is not stored.
create or replace function turnabout.type_of(content_type text) returns text
language sql immutable parallel safe as $$
    select coalesce(content_type, 'application/octet-stream')
$$;

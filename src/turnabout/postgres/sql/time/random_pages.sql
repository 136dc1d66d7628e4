-- The first and last of a few pages of a table, chosen at random with equal chances for each page.
create or replace function turnabout.random_pages(
    place regclass, out from_tid tid, out until_tid tid
) language plpgsql volatile as $$
declare
    v_few int := 10;
    v_pages bigint := pg_relation_size(place) / current_setting('block_size')::int;
    v_first bigint := floor(random() * (v_pages + v_few - 1)) - v_few + 1;
begin
    from_tid := format('(%s,0)', greatest(v_first, 0));
    until_tid := format('(%s,0)', v_first + v_few);
end $$;

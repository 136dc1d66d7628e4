-- A limit of size counts where messages stand, so after a crash of the server it is refused until
-- that is rebuilt. Senders without one go on.
create or replace function turnabout.know_sizes(queue turnabout.queue) returns void
language plpgsql as $$
begin
    if not exists (select from turnabout.whole) and (queue.max_size is not null or exists (
        select from turnabout.channel c where c.queue_id = queue.id and c.max_size is not null
    )) then
        perform turnabout.require_places();
    end if;
end $$;

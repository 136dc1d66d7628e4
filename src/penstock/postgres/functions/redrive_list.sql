-- Redrives of all queues or one, the newest first.
create or replace function penstock.redrive_list(queue text default null, most int default 20)
returns setof penstock.redrive
language sql stable as $$
    select r.* from penstock.redrive r
    where redrive_list.queue is null or r.queue = redrive_list.queue
    order by r.id desc
    limit most
$$;

-- When the lease of a message ends: at an instant of its own, or with the rest of its receive.
coalesce((
    select e.until from turnabout.extension e where e.id = {message} and e.lease = {lease}.id
), {lease}.rest_until, {lease}.until)

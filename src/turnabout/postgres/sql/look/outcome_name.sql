-- The name of an outcome, by its number in history.
create or replace function turnabout.outcome_name(outcome smallint) returns text
language sql immutable parallel safe as $$
    select (array['done', 'dead', 'cancelled', 'expired'])[outcome]
$$;

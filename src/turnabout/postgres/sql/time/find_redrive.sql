-- A redrive's row, or SQLSTATE PQ409; so for one of another namespace, if one is named.
create or replace function turnabout.find_redrive(id bigint, namespace text default null)
returns turnabout.redrive language plpgsql stable as $$
declare
    v_row turnabout.redrive;
begin
    select r.* into v_row from turnabout.redrive r
    where r.id = find_redrive.id and (
        find_redrive.namespace is null
        or left(r.queue, greatest(position('/' in r.queue), 1) - 1) = find_redrive.namespace
    );
    if not found then
        raise exception 'there is no redrive %', find_redrive.id
            using errcode = 'PQ409', hint = 'redrives are listed by redrive_list';
    end if;
    return v_row;
end $$;

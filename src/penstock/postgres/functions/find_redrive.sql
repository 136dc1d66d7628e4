-- A redrive's row, or SQLSTATE PQ409.
create or replace function penstock.find_redrive(id bigint) returns penstock.redrive
language plpgsql stable as $$
#variable_conflict use_column
declare
    v_row penstock.redrive;
begin
    select r.* into v_row from penstock.redrive r where r.id = find_redrive.id;
    if not found then
        raise exception 'there is no redrive %', find_redrive.id
            using errcode = 'PQ409', hint = 'redrives are listed by redrive_list';
    end if;
    return v_row;
end
$$;

-- What roles with a permission may call, after sets have come or gone.
do $$
begin
    perform turnabout.forget_strangers();
    perform turnabout.grant_to(p.role_name) from turnabout.permission p group by p.role_name;
end $$;

-- The first partitions of history; maintain makes those that follow.
do $$
begin
    for i in 0 .. 2 loop
        perform turnabout.maintain_days(turnabout.clock_ms());
    end loop;
end $$;

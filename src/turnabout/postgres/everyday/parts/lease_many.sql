-- Lease some messages by one row.
{{lease
    number = (select nextval('turnabout.lease_number'));
    rows = (
        select min(a.lease) as lease, min(a.at) as at, array_agg(a.id) as ids,
            array_agg(a.attempt) as attempts
        from taken a
        having count(*) > 0
    )}}

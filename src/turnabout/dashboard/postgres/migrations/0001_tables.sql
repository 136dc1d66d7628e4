-- Samples of queues, for the dashboard's charts; insert only. step_ms: how far apart they are. A
-- queue is known by its name, so that nothing has to be done here when it goes.
create table turnabout.sample (
    queue text collate "C" not null, step_ms int not null, at bigint not null,
    ready bigint not null, leased bigint not null, oldest_ms bigint, sent bigint not null,
    done bigint not null, dead bigint not null,
    shares text,  -- JSON: {channel: [got, fair]}
    primary key (queue, step_ms, at)
);

create index sample_age on turnabout.sample (step_ms, at);

"""pg-boss: jobs for Node."""

from benchmarks.peers.on_node import NodePeer


class PgBoss(NodePeer):
    """One queue of its standard kind."""

    name = package = "pg-boss"
    about = (
        "`fetch` and `complete` on Node in a loop, which is kinder than its `work`: that polls"
        " twice a second at most, so it has no latency here. What is done stays as a row. A fetch"
        " sorts the whole backlog, so it has 5,000 waiting at most."
    )
    skills = ("send", "receive")
    backlog_max = 5_000
    tables = ("pgboss.job",)
    waiting = "select count(*) from pgboss.job where state < 'active'"
    insert = (
        "insert into pgboss.job (name, data)"
        " select 'bench', json_build_object('p', repeat('x', {size}))"
        " from generate_series(1, {count})"
    )

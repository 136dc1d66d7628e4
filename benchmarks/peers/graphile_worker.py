"""Graphile Worker: jobs for Node."""

from benchmarks.peers.on_node import NodePeer


class GraphileWorker(NodePeer):
    """Its tables as it migrates them."""

    name = package = "graphile-worker"
    about = (
        "Its runner on Node. Batch 1 is its default; a larger one is a `localQueue` of that size,"
        " as many concurrent jobs up to 24, and completions batched as they come."
    )
    skills = ("send", "receive", "wait")
    backlog_max = 40_000
    slices = 3
    tables = ("graphile_worker._private_jobs",)
    waiting = "select count(*) from graphile_worker.jobs where locked_at is null"
    insert = (
        "select count(*) from graphile_worker.add_jobs(array(select row('bench',"
        " json_build_object('p', repeat('x', {size})), null, null, null, null, null, null)"
        "::graphile_worker.job_spec from generate_series(1, {count})))"
    )

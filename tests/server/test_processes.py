"""Several processes at one port: they share requests and counts, and they end together."""

import os
import re
import signal
from functools import partial
from pathlib import Path

import pytest
from prometheus_client import values
from prometheus_client.multiprocess import mark_process_dead

from tests.server.process import Process, post_once, process
from tests.server.running import Client, get
from tests.server.test_serve import MESSAGES
from tests.support.until import until
from turnabout.server.api import metrics
from turnabout.server.counts import ServerCounts


def test_counts_of_all_processes_are_one_and_never_fall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(metrics.MULTIPROC, str(tmp_path))
    for number in (1, 2):
        own = values.MultiProcessValue(partial(int, number))
        monkeypatch.setattr(values, "ValueClass", own)
        counts = ServerCounts()
        counts.request("/v1", "GET", 200, number)
        for commits in (5, 7):
            counts.take({"polls": 3, "store_commits": commits, "store_file_bytes": 100 * number})

    def shown() -> list[float]:
        samples = [one for family in metrics._counted(counts) for one in family.samples]
        found = {one.name.removeprefix("turnabout_"): one.value for one in samples}
        names = ("http_requests_total", "http_request_duration_seconds_sum", "store_commits_total")
        return [found[name] for name in (*names, "polls", "store_file_bytes")]

    assert shown() == [2, 3, 14, 6, 200]
    mark_process_dead(2)
    assert shown() == [2, 3, 14, 3, 100], "gauges are of the processes that live"


def accepted(server: Process) -> int:
    with Client(server.port) as client:
        found = re.search(
            rb"turnabout_messages_accepted_total (\d+)", client.ask(get("/metrics")).body
        )
    assert found is not None
    return int(found[1])


def children(server: Process) -> set[int]:
    told = Path(f"/proc/{server.popen.pid}/task/{server.popen.pid}/children").read_text()
    return set(map(int, told.split()))


def listeners(port: int) -> int:
    """How many processes listen at that port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)


@pytest.mark.slow
def test_processes_share_a_port_and_end_together(tmp_path: Path) -> None:
    with process(f"sqlite:///{tmp_path}/app.db", "--processes=2") as server:
        for _ in range(20):
            post_once(server.port, "/v1/queues/q/messages", MESSAGES)
        until(lambda: accepted(server) == 20)
        until(lambda: listeners(server.port) == 2)  # or who listens alone would be stopped
        first = children(server)
        assert len(first) == 2
        os.kill(min(first), signal.SIGTERM)
        until(lambda: len(children(server) - first) == 1)
        for _ in range(20):
            post_once(server.port, "/v1/queues/q/messages", MESSAGES)
        until(lambda: accepted(server) == 40)
        last = children(server)
        assert server.end() == 0
    for one in last:
        with pytest.raises(ProcessLookupError):
            os.kill(one, 0)

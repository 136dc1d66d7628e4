"""Several processes at one port: they share requests and counts, and they end together."""

import os
import re
import signal
from pathlib import Path

import pytest

from tests.server.process import Process, post_once, process
from tests.server.running import Client, get
from tests.server.test_serve import MESSAGES
from tests.support.until import until
from turnabout.server.counts import ServerCounts
from turnabout.server.shared_counts import SharedCounts


def test_counts_of_all_processes_are_one_and_never_fall(tmp_path: Path) -> None:
    others = [ServerCounts(), ServerCounts()]
    for seconds, counts in enumerate(others, 1):
        counts.request("/v1", "GET", 200, seconds)
        counts.verb_errors["send", "busy"] += 1
        counts.messages["sent"] += 2
        counts.wait_seconds.observe(0.001)
    living, dead = (SharedCounts(tmp_path, counts, lambda: {"polls": 3}) for counts in others)
    dead._file = tmp_path / str(2**22 + 1)  # more than any process's number
    dead.write()
    counts, now = living.of_all()
    assert counts.requests == {("/v1", "GET", 200): 2}
    assert counts.request_seconds["/v1", "GET"].seconds == 3
    assert sum(counts.request_seconds["/v1", "GET"].buckets) == 2
    assert counts.verb_errors == {("send", "busy"): 2}
    assert counts.messages == {"sent": 4}
    assert counts.wait_seconds.buckets[0] == 2
    assert now == {"polls": 3}, "of the living only"


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

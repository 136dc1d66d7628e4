"""The server restarts, stops and is killed in the middle: it is said, and nothing is lost."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import turnabout
from tests.conformance.steps import sent
from tests.support.doors import migrate
from tests.support.postgres import GIVEN, VERSIONS, own_server
from turnabout import Acked, LeaseLost, Unavailable, Uncertain

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_time,
    pytest.mark.skipif(GIVEN is not None, reason="a given server is not ours to restart"),
]


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda v: f"pg{v}")
def server(request) -> Iterator[Any]:
    """A server of our own, which keeps what it has confirmed."""
    settings = {"synchronous_commit": "on", "full_page_writes": "on"}
    with own_server(request.param, settings=settings) as server:
        server.create_database("app")
        migrate(server.url("app"))
        yield server


@pytest.fixture
def queue(server, request) -> Iterator[Any]:
    with turnabout.connect(server.url("app")) as mq:
        queue = mq.queue(f"q{abs(hash(request.node.nodeid))}")
        queue.create()
        yield queue


def eventually(verb: Callable[[], Any], seconds: float = 15) -> Any:
    """Repeat until the server is back; only what may be said is said meanwhile."""
    give_up = time.monotonic() + seconds
    while True:
        try:
            return verb()
        except (Unavailable, Uncertain):
            if time.monotonic() > give_up:
                raise
            time.sleep(0.05)


def drained(queue: Any) -> list[str]:
    got: list[str] = []
    while batch := eventually(lambda: queue.receive(100)):
        got += [m.text() for m in batch]
        eventually(lambda batch=batch: queue.ack([m.receipt for m in batch]))
    return got


HOW = {
    "stopped": lambda server: server.restart("fast"),
    "crashed": lambda server: server.restart("immediate"),
    "killed": lambda server: (server.kill(), server.start()),
}


@pytest.mark.parametrize("how", HOW)
def test_after_a_restart_it_works_again_and_nothing_is_lost(server, queue, how):
    names = [str(n) for n in range(50)]
    sent(queue, *names)
    (held,) = queue.receive()
    HOW[how](server)
    # A crash voids leases, and their work is handed out again, uncharged.
    outcome = eventually(held.ack)
    assert isinstance(outcome, Acked if how == "stopped" else LeaseLost)
    assert drained(queue) == names[how == "stopped" :]
    stats = eventually(queue.stats)
    assert (stats.sent, stats.done) == (50, 50)


def test_while_the_server_is_down_it_is_said(server, queue):
    sent(queue, "before")
    server.stop()
    try:
        for verb in (lambda: queue.send("down"), queue.receive, queue.stats):
            began = time.monotonic()
            with pytest.raises((Unavailable, Uncertain)):
                verb()
            assert time.monotonic() - began < 20
    finally:
        server.start()
    assert drained(queue)[0] == "before"


def test_a_wait_survives_a_restart(server, queue):
    """Who waits either says that the server went away, or gets the message when it is back."""
    got: list[Any] = []

    def wait() -> None:
        got.extend(eventually(lambda: queue.receive(wait_seconds=15)))

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    time.sleep(0.3)
    server.restart("immediate")
    with turnabout.connect(server.url("app")) as mq:
        eventually(lambda: mq.queue(queue.name).send("back"))
    thread.join(20)
    assert [m.text() for m in got] == ["back"]

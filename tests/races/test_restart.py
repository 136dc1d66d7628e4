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
from turnabout import Unavailable, Uncertain

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
    eventually(held.ack)
    assert drained(queue) == names[1:]
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


def test_killed_in_the_middle_of_sending_nothing_accepted_is_lost(server, queue):
    accepted, unknown = [], []
    stop = threading.Event()

    def produce(name: int) -> None:
        for n in range(10**6):
            if stop.is_set():
                return
            text = f"{name}.{n}"
            try:
                queue.send(text)
                accepted.append(text)
            except Uncertain:
                unknown.append(text)
            except Unavailable:
                time.sleep(0.01)

    threads = [threading.Thread(target=produce, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            grown(accepted, 20)
            server.kill()
            server.start()
        grown(accepted, 20)
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    got = drained(queue)
    assert len(got) == len(set(got))
    assert set(accepted) <= set(got), "accepted, and lost"
    assert set(got) <= {*accepted, *unknown}, "refused, and there all the same"


def grown(many: list[str], more: int, seconds: float = 30) -> None:
    """Wait until so many more are there, and somebody is in the middle of the next."""
    enough, give_up = len(many) + more, time.monotonic() + seconds
    while len(many) < enough:
        assert time.monotonic() < give_up, "nothing is accepted any more"
        time.sleep(0.01)


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

"""The client's store: waits, closing, forks, and what it refuses."""

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import turnabout
import turnabout.aio
from tests.remote.liar import answer, liar
from tests.support.postgres import migrated
from tests.support.served import Server, served
from tests.support.until import until
from turnabout.server import verbs as credentials
from turnabout.words import verbs as v
from turnabout.words.verb import Change

pytestmark = pytest.mark.slow

SECONDS = 20.0
ALONE = "connection: close\r\n"


class Counted:
    """An app that counts the requests to the one inside it."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.paths = Counter[str]()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.paths[scope["path"].rpartition("/")[2]] += 1
        await self.app(scope, receive, send)


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[tuple[Server, Counter[str]]]:
    """A server, and how often it was asked for what."""
    with counting(f"sqlite:///{tmp_path}/app.db") as made:
        yield made


@contextmanager
def counting(url: str) -> Iterator[tuple[Server, Counter[str]]]:
    made: list[Counted] = []

    def around(app: Any) -> Any:
        made.append(Counted(app))
        return made[-1]

    with served(url, around=around) as server:
        yield server, made[0].paths


def in_thread(work: Any) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_many_who_wait_cost_one_request(counted: tuple[Server, Counter[str]]) -> None:
    server, asked = counted
    got: list[int] = []
    with turnabout.connect(server.url) as mq:
        queue = mq.queue("q")
        queue.create()
        assert not queue.receive(wait_seconds=0.01)
        threads = [
            in_thread(lambda: got.append(len(queue.receive(wait_seconds=SECONDS))))
            for _ in range(20)
        ]
        until(lambda: [len(one) for one in mq._shared.waiters.values()] == [20])
        until(lambda: len(mq.store._notifier._waiting.get("q", [])) == 1)
        until(lambda: asked["signal"] == 2)
        assert asked["receive"] < 10  # one look for all
        assert asked["signal"] == 2  # what the number is, and when it changes
        mq.queue("q").send_many(turnabout.message(n) for n in range(20))
        for thread in threads:
            thread.join(SECONDS)
    assert got == [1] * 20


def test_an_end_wakes_no_receiver() -> None:
    got: list[int] = []
    # (SQLite tells no kinds of change apart.)
    with migrated() as url, counting(url) as (server, asked), turnabout.connect(server.url) as mq:
        queue = mq.queue("q")
        queue.create()
        sent = queue.send("a")
        (message,) = queue.receive()
        thread = in_thread(lambda: got.append(len(queue.receive(wait_seconds=SECONDS))))
        until(lambda: mq.store._notifier.is_waited_for("q", Change.READY) and asked["signal"] == 2)
        before = asked["receive"]
        with turnabout.connect(server.url) as other:  # it waits for the end, and is told
            waiting = in_thread(lambda: other.queue("q").wait(sent.ids, timeout_seconds=SECONDS))
            until(lambda: asked["signal"] == 4)
            message.ack()
            waiting.join(SECONDS)
        assert asked["receive"] == before
        queue.send("b")
        thread.join(SECONDS)
    assert got == [1]


def test_a_client_leaves_maintenance_and_schedules_to_the_server(
    counted: tuple[Server, Counter[str]], monkeypatch: Any
) -> None:
    server, asked = counted
    seconds = time.monotonic()
    with turnabout.connect(server.url) as mq:
        queue = mq.queue("q")
        queue.create()
        monkeypatch.setattr("turnabout.waiting.pacing.time.monotonic", lambda: seconds)
        for _ in range(5):
            assert not queue.receive()
            seconds += 60
    assert asked["receive"] == 5
    assert not asked["maintain"]
    assert not asked["schedules"]


def test_a_server_that_lets_nobody_wait_is_not_asked_without_end() -> None:
    with (
        liar(answer(200, b'{"signal": 7, "instance": "a"}', headers=ALONE)) as server,
        turnabout.connect(server.url) as mq,
    ):
        store = mq.store
        store.wait("q", store.signal("q"), 0.3)
        assert len(server.asked) == 2
        assert b"?change=any&seen=7&instance=a&wait_seconds=20 " in server.asked[1]


def test_a_server_that_cannot_be_asked_ends_the_wait() -> None:
    with liar(answer(503, headers=ALONE)) as server, turnabout.connect(server.url) as mq:
        began = time.monotonic()
        mq.store.wait("q", mq.store.signal("q"), SECONDS)
        assert 0.9 < time.monotonic() - began < SECONDS
        assert len(server.asked) == 2


def test_closing_ends_waits_and_refuses_what_comes_after(server: Server) -> None:
    mq = turnabout.connect(server.url)
    queue = mq.queue("q")
    queue.create()
    began = time.monotonic()
    waiting = in_thread(lambda: queue.receive(wait_seconds=60))
    until(lambda: mq.store._notifier.is_waited_for("q"))
    mq.close()
    mq.close()
    waiting.join(SECONDS)
    assert time.monotonic() - began < SECONDS
    with pytest.raises(turnabout.UsageError, match="was closed"):
        queue.send("x")


async def test_closing_ends_waits_on_an_event_loop_too(server: Server) -> None:
    mq = turnabout.aio.connect(server.url)
    queue = mq.queue("q")
    await queue.create()
    waiting = asyncio.create_task(queue.receive(wait_seconds=60))
    await asyncio.to_thread(until, lambda: mq.store._notifier.is_waited_for("q"))
    await mq.close()
    await asyncio.wait_for(waiting, SECONDS)
    with pytest.raises(turnabout.UsageError, match="was closed"):
        await queue.send("x")


def test_a_call_under_way_is_not_cut_by_closing() -> None:
    go = threading.Event()

    def slowly(connection: Any) -> None:
        go.wait(SECONDS)
        connection.sendall(answer(200, b'{"outcome": "sent", "ids": [7]}'))

    with liar(slowly) as server:
        mq, found = turnabout.connect(server.url), []
        thread = in_thread(lambda: found.append(mq.queue("q").send("x").id))
        until(lambda: server.asked)
        mq.close()
        go.set()
        thread.join(SECONDS)
    assert found == [7]


def test_a_forked_child_has_connections_of_its_own(server: Server) -> None:
    with turnabout.connect(server.url) as mq:
        mq.queue("q").send("parent")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                mq.queue("q").send("child")
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        mq.queue("q").send("parent")
        assert [m.text() for m in mq.queue("q").receive(10)] == ["parent", "child", "parent"]


def test_an_idle_client_finds_the_server_after_its_restart(server: Server) -> None:
    with turnabout.connect(server.url) as mq:
        mq.queue("q").send("1")
        server.stop()
        with pytest.raises(turnabout.Disconnected):
            mq.queue("q").send("nobody there")
        server.start()
        mq.queue("q").send("2")
        assert [m.text() for m in mq.queue("q").receive(10)] == ["1", "2"]


def test_a_wait_goes_on_over_a_restart(server: Server) -> None:
    got: list[str] = []

    def receive() -> None:
        while not got:
            try:
                got.extend(m.text() for m in queue.receive(wait_seconds=SECONDS))
            except turnabout.Unavailable:
                time.sleep(0.05)

    with turnabout.connect(server.url) as mq, turnabout.connect(server.url) as other:
        queue = mq.queue("q")
        queue.create()
        thread = in_thread(receive)
        until(lambda: mq.store._notifier.is_waited_for("q"))
        server.stop()
        server.start()
        until(lambda: other.queue("q").send("after"))
        thread.join(SECONDS)
    assert got == ["after"]


def test_what_has_no_place_behind_a_server(server: Server) -> None:
    with turnabout.connect(server.url) as mq:
        with pytest.raises(turnabout.UsageError, match="connect to the database itself"):
            mq.queue("q").within(object())
        with pytest.raises(turnabout.UsageError, match="token_list works on the database"):
            mq.store.run(credentials.TokenList())
        with pytest.raises(
            turnabout.UsageError, match="at most 100 verbs in one transaction, not 101"
        ):
            mq.store.run_transaction([v.Stats("q")] * 101)
        assert mq.store.run_transaction([]) == []
        with pytest.raises(turnabout.UsageError):
            mq.queue("acme/emails").send("another's")
        with pytest.raises(turnabout.UsageError, match="namespace"):
            mq.store.run(v.QueueList(namespace="acme"))

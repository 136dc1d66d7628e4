"""The worker's `transaction=True`: rows and the end of a message are committed together."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import turnabout
from tests.joined.conftest import postgres_place, sqlite_place
from tests.joined.test_kills import rows
from tests.support.nursery import ROOT
from tests.worker.support import Timers
from turnabout.worker import Defer, GiveUp, Worker

pytestmark = pytest.mark.slow


@pytest.fixture(params=["postgres", "postgres-async", "sqlite"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def url(kind: str, tmp_path: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield sqlite_place(tmp_path)
        return
    with postgres_place() as url:
        yield url


@pytest.fixture
def queue(url: str) -> Iterator[Any]:
    with turnabout.connect(url) as mq:
        queue = mq.queue("q")
        queue.create(backoff_jitter=0.0, backoff_seconds=3600.0)
        yield queue


def worker_of(url: str, kind: str, handler: Any, **options: Any) -> Worker:
    """A worker whose handler is `handler(message, execute)`, in the colour of the test."""
    worker = Worker(url, poll_seconds=0.05)
    if kind == "postgres-async":

        @worker.handler("q", transaction=True, **options)
        async def work(message: Any, connection: psycopg.AsyncConnection[Any]) -> Any:
            statements: list[str] = []
            try:
                answer = handler(message, statements.append)
            finally:
                for statement in statements:
                    await connection.execute(statement)  # type: ignore[arg-type]
            return answer

    else:

        @worker.handler("q", transaction=True, **options)
        def work_in_thread(message: Any, connection: Any) -> Any:
            return handler(message, connection.execute)

    return worker


def insert(n: object) -> str:
    return f"insert into business values ({n}, 'x')"


def test_rows_and_acks_are_committed_together(url: str, kind: str, queue: Any) -> None:
    ids = queue.send_many(turnabout.message(str(n)) for n in range(10)).ids

    def handler(message: Any, execute: Any) -> Any:
        execute(insert(message.text()))
        return {"n": int(message.text())}

    stats = worker_of(url, kind, handler, concurrency=3).run(until_empty=True)
    assert (stats.handled, stats.failed) == (10, 0)
    assert rows(url) == set(range(10))
    assert not queue.peek()
    ending = queue.endings(ids[:1])[0]
    assert (ending.outcome, ending.attempt) == ("done", 1)


def test_a_handler_that_raises_undoes_its_rows_and_is_charged(
    url: str, kind: str, queue: Any, caplog: pytest.LogCaptureFixture
) -> None:
    queue.send("1")

    def handler(message: Any, execute: Any) -> None:
        execute(insert(1))
        raise ValueError("no luck")

    stats = worker_of(url, kind, handler).run(until_empty=True)
    assert (stats.handled, stats.failed) == (0, 1)
    assert rows(url) == set()
    (peeked,) = queue.peek()
    assert (peeked.state, peeked.attempt, peeked.failures, peeked.crashes) == ("scheduled", 1, 1, 0)
    assert "ValueError: no luck" in peeked.error
    (record,) = [one for one in caplog.records if one.levelname == "ERROR"]
    said = record.getMessage()
    assert "(attempt 1 of 5): ValueError: no luck; retry in 3," in said
    assert record.exc_info is not None


def test_a_handler_that_hangs_loses_message_and_transaction(
    url: str, kind: str, queue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others can have the message, and write, while the handler goes on."""
    queue.update(backoff_seconds=0.0)
    queue.send("1")
    timers, go, tries = Timers(monkeypatch), threading.Event(), list[int]()
    worker = Worker(url, poll_seconds=0.05, timeout_seconds=60)

    if kind == "postgres-async":

        @worker.handler("q", transaction=True)
        async def work(message: Any, connection: psycopg.AsyncConnection[Any]) -> None:
            tries.append(message.attempt)
            await connection.execute("insert into business values (1, 'x')")
            if message.attempt == 1:
                timers.pass_by(message)
                await connection.execute("select pg_sleep(60)")

    else:

        @worker.handler("q", transaction=True)
        def work_in_thread(message: Any, connection: Any) -> None:
            tries.append(message.attempt)
            connection.execute(insert(1))  # while the first one has its transaction, this waits
            if message.attempt == 1:
                timers.pass_by(message)
                go.wait(60)

    stats = worker.run(until_empty=True)
    go.set()
    assert (tries, stats.failed, stats.handled) == ([1, 2], 1, 1)
    assert rows(url) == {1}


def test_endings_that_are_raised_undo_the_rows_too(url: str, kind: str, queue: Any) -> None:
    queue.send_many([turnabout.message("1"), turnabout.message("2")])

    def handler(message: Any, execute: Any) -> None:
        execute(insert(message.text()))
        if message.text() == "1":
            raise Defer(delay_seconds=60, state=b"half")
        raise GiveUp("never")

    stats = worker_of(url, kind, handler).run(until_empty=True)
    assert (stats.deferred, stats.failed) == (1, 1)
    assert rows(url) == set()
    (peeked,) = queue.peek()
    assert (peeked.saved_state, peeked.failures) == (b"half", 0)


def test_a_deferral_that_is_returned_keeps_the_rows(url: str, kind: str, queue: Any) -> None:
    queue.send("1")

    def handler(message: Any, execute: Any) -> Any:
        execute(insert(1))
        return Defer(delay_seconds=60, state=b"half")

    worker_of(url, kind, handler).run(until_empty=True)
    assert rows(url) == {1}
    assert queue.peek()[0].saved_state == b"half"


def test_a_lost_lease_undoes_the_rows(tmp_path: Path) -> None:
    """On SQLite only: elsewhere nobody can get at a message that is received in a transaction."""
    url = sqlite_place(tmp_path)
    with turnabout.connect(url) as mq:
        mq.queue("q").send("1")
        worker = Worker(url, poll_seconds=0.05)

        @worker.handler("q", transaction=True, lease_seconds=0.001, heartbeat=False)
        def work(message: Any, connection: sqlite3.Connection) -> None:
            deadline = time.monotonic() + 40
            while not (got := mq.queue("q").receive(lease_seconds=60)):
                assert time.monotonic() < deadline
            assert got[0].id == message.id
            connection.execute(insert(1))
            worker.stop()

        stats = worker.run()
        assert (stats.handled, stats.lost) == (0, 1)
        assert rows(url) == set()
        assert mq.queue("q").peek()[0].state == "leased"


def test_no_write_lock_while_a_handler_only_computes(tmp_path: Path) -> None:
    url = sqlite_place(tmp_path)
    with turnabout.connect(f"{url}?busy_seconds=1") as mq:
        mq.queue("q").send("1")
        worker = Worker(url, poll_seconds=0.05)

        @worker.handler("q", transaction=True)
        def work(message: Any, connection: sqlite3.Connection) -> None:
            assert connection.execute("select count(*) from business").fetchone() == (0,)
            mq.queue("other").send("while it computes")
            connection.execute(insert(1))

        assert worker.run(until_empty=True).handled == 1
        assert rows(url) == {1}


def test_fifo_holds_in_transactions(url: str, kind: str) -> None:
    with turnabout.connect(url) as mq:
        queue = mq.queue("q")
        queue.create(fifo=True)
        queue.send_many(
            turnabout.message(f"{10 * n + c}", channel=str(c)) for n in range(4) for c in range(3)
        )
        running: dict[str, int] = {}
        seen: list[int] = []
        lock = threading.Lock()

        def handler(message: Any, execute: Any) -> None:
            with lock:
                assert not running.get(message.channel)
                running[message.channel] = 1
                seen.append(int(message.text()))
            execute(insert(message.text()))
            with lock:
                running[message.channel] = 0

        stats = worker_of(url, kind, handler, concurrency=4).run(until_empty=True)
        assert (stats.handled, stats.failed) == (12, 0)
        for c in range(3):
            assert [n for n in seen if n % 10 == c] == [c, 10 + c, 20 + c, 30 + c]


VICTIM = """
import os, signal, sys
from turnabout.worker import Worker
url, step = sys.argv[1:]
worker = Worker(url, poll_seconds=0.05)

@worker.handler("q", transaction=True, lease_seconds=0.3)
{a}def work(message, connection):
    last = message.text() == "2"
    if last and step == "received":
        os.kill(os.getpid(), signal.SIGKILL)
    {w}connection.execute(f"insert into business values ({{message.text()}}, 'x')")
    if last and step == "row":
        os.kill(os.getpid(), signal.SIGKILL)
    if last and step == "acked":
        {w}message.ack()
        os.kill(os.getpid(), signal.SIGKILL)

worker.run()
"""


@pytest.mark.share(4)
@pytest.mark.parametrize("step", ["received", "row", "acked"])
def test_a_killed_worker_leaves_row_and_message_agreeing(
    url: str, kind: str, step: str, tmp_path: Path
) -> None:
    is_async = kind == "postgres-async"
    program = tmp_path / "victim.py"
    program.write_text(textwrap.dedent(VICTIM).format(a="async " * is_async, w="await " * is_async))
    with turnabout.connect(url) as mq:
        queue = mq.queue("q")
        queue.create(fifo=True, max_attempts=9)
        queue.send_many(turnabout.message(str(n)) for n in range(5))
        process = subprocess.run(
            [sys.executable, str(program), url, step],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert process.returncode == -signal.SIGKILL, process.stderr
        assert rows(url) == {0, 1}
        assert [int(m.payload) for m in queue.peek()] == [2, 3, 4]
        if kind != "sqlite":
            # Back as soon as the server sees that it is dead, and the delivery was never counted.
            (message,) = queue.receive(wait_seconds=30)
            assert (message.text(), message.attempt) == ("2", 1)
            message.release()

        def handler(message: Any, execute: Any) -> None:
            execute(insert(message.text()))

        deadline = time.monotonic() + 30
        while queue.peek() and time.monotonic() < deadline:
            worker_of(url, kind, handler).run(until_empty=True)
        assert rows(url) == set(range(5))


def test_a_stopped_worker_gives_back_what_its_handler_would_not_end(kind: str, url: str) -> None:
    with turnabout.connect(url) as mq:
        mq.queue("q").send("1")
        worker = Worker(url, poll_seconds=0.05, grace_seconds=0.1)
        release = threading.Event()
        threads: list[threading.Thread] = []

        if kind == "postgres-async":

            @worker.handler("q", transaction=True)
            async def work(message: Any, connection: Any) -> None:
                import asyncio

                await connection.execute(insert(1))
                worker.stop()
                await asyncio.sleep(30)

        else:

            @worker.handler("q", transaction=True)
            def work_in_thread(message: Any, connection: Any) -> None:
                threads.append(threading.current_thread())
                connection.execute("select 1")
                worker.stop()
                release.wait(20)
                connection.execute(insert(1))

        worker.run()
        release.set()
        for thread in threads:
            thread.join(20)
        deadline = time.monotonic() + 40
        while not (got := mq.queue("q").receive()) and time.monotonic() < deadline:
            pass
        assert got[0].crashes == 0
        assert rows(url) == set()


def test_stores_and_colours_that_cannot_are_refused(tmp_path: Path) -> None:
    worker = Worker(sqlite_place(tmp_path))

    @worker.handler("q", transaction=True)
    async def work(message: Any, connection: Any) -> None: ...

    with pytest.raises(turnabout.UsageError, match="must be an ordinary function, not `async`"):
        worker.run(until_empty=True)

    memory = Worker("sqlite://")

    @memory.handler("q", transaction=True)
    def work_in_thread(message: Any, connection: Any) -> None: ...

    with pytest.raises(turnabout.UsageError, match="memory is private"):
        memory.run(until_empty=True)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ({"prefetch": 2}, "prefetch=0"),
        ({"heartbeat": False}, "heartbeat=True"),
        ({"cancellable": True}, "cancellable=False"),
    ],
    ids=lambda v: str(v),
)
def test_what_a_transaction_cannot_do_is_refused(option: dict[str, Any], says: str) -> None:
    """PostgreSQL: who receives in the transaction leases nothing ahead, and has no heartbeats."""
    with postgres_place() as url:
        worker = Worker(url)

        @worker.handler("q", transaction=True, **option)
        async def work(message: Any, connection: Any) -> None: ...

        with pytest.raises(turnabout.UsageError, match=f"`transaction=True`.*{says}"):
            worker.run(until_empty=True)


def test_on_a_file_a_transaction_has_prefetch_and_heartbeats(tmp_path: Path) -> None:
    url = sqlite_place(tmp_path)
    with turnabout.connect(url) as mq:
        mq.queue("q").send_many(turnabout.message(str(n)) for n in range(5))
    worker = Worker(url, poll_seconds=0.05)

    @worker.handler("q", transaction=True, prefetch=3, heartbeat=False)
    def work(message: Any, connection: Any) -> None:
        connection.execute(insert(message.text()))

    assert worker.run(until_empty=True).handled == 5
    assert rows(url) == set(range(5))


def test_the_connection_breaks_under_a_handler() -> None:
    with postgres_place() as url, turnabout.connect(url) as mq:
        mq.queue("q").send("1")
        worker = Worker(url, poll_seconds=0.05)
        tries = 0

        @worker.handler("q", transaction=True)
        def work(message: Any, connection: psycopg.Connection[Any]) -> None:
            nonlocal tries
            tries += 1
            connection.execute("insert into business values (1, 'x')")
            if tries == 1:
                with psycopg.connect(url, autocommit=True) as admin:
                    admin.execute("select pg_terminate_backend(%s)", (connection.info.backend_pid,))
                with contextlib.suppress(psycopg.Error):
                    connection.execute("select 1")
            else:
                worker.stop()

        stats = worker.run()
        assert (tries, stats.handled, stats.failed) == (2, 1, 0)
        assert rows(url) == {1}

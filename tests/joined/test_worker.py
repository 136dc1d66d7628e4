"""The worker's `transaction=True`: rows and the end of a message are committed together."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
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

    stats = worker_of(url, kind, handler, concurrency=3, prefetch=4).run(until_empty=True)
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

    def work_in_thread(message: Any, connection: Any) -> None:
        tries.append(message.attempt)
        connection.execute(insert(1))  # while the first one has its transaction, this waits
        if message.attempt == 1:
            timers.pass_by(message)
            go.wait(60)

    async def work(message: Any, connection: psycopg.AsyncConnection[Any]) -> None:
        tries.append(message.attempt)
        await connection.execute("insert into business values (1, 'x')")
        if message.attempt == 1:
            timers.pass_by(message)
            await connection.execute("select pg_sleep(60)")

    chosen: Any = work if kind == "postgres-async" else work_in_thread
    worker.handler("q", transaction=True)(chosen)
    stats = worker.run(until_empty=True)
    go.set()
    assert (tries, stats.failed, stats.handled) == ([1, 2], 1, 1)
    assert rows(url) == {1}


def test_what_is_sent_with_an_ack_is_committed_with_the_rows(
    url: str, kind: str, queue: Any
) -> None:
    queue.send_many(turnabout.message(str(n)) for n in range(2))
    with turnabout.connect(url) as mq:
        mq.queue("next").create(max_messages=1)
    worker = Worker(url, poll_seconds=0.05)

    def then(message: Any) -> dict[str, Any]:
        return {"next": [turnabout.message(message.text())]}

    def work_in_thread(message: Any, connection: Any) -> None:
        connection.execute(insert(message.text()))
        message.ack(then=then(message))

    async def work(message: Any, connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute(insert(message.text()))  # type: ignore[arg-type]
        await message.ack(then=then(message))

    chosen: Any = work if kind == "postgres-async" else work_in_thread
    worker.handler("q", transaction=True)(chosen)
    stats = worker.run(until_empty=True)
    assert (stats.handled, stats.failed) == (1, 1), "the second one finds no room"
    assert rows(url) == {0}
    (left,) = queue.peek()
    assert (left.text(), "Refused: nothing was done" in left.error) == ("1", True)
    with turnabout.connect(url) as mq:
        assert [one.text() for one in mq.queue("next").peek()] == ["0"]


def test_endings_that_are_raised_undo_the_rows_too(url: str, kind: str, queue: Any) -> None:
    ids = queue.send_many(turnabout.message(str(n)) for n in range(3)).ids

    def handler(message: Any, execute: Any) -> Any:
        execute(insert(message.text()))
        if message.text() == "1":
            raise GiveUp("never")
        deferral = Defer(delay_seconds=60, state=message.payload)
        if message.text() == "2":
            raise deferral
        return deferral

    worker_of(url, kind, handler).run(until_empty=True)
    assert rows(url) == {0}
    left = {one.id: (one.saved_state, one.failures) for one in queue.peek()}
    assert left == {ids[0]: (b"0", 0), ids[2]: (b"2", 0)}


def test_a_lost_lease_undoes_the_rows(url: str, kind: str, queue: Any) -> None:
    queue.send("1")

    def handler(message: Any, execute: Any) -> None:
        queue.release([message.receipt])
        assert queue.receive(lease_seconds=60)[0].id == message.id
        execute(insert(1))
        worker.stop()

    worker = worker_of(url, kind, handler)
    stats = worker.run()
    assert (stats.handled, stats.lost) == (0, 1)
    assert rows(url) == set()
    assert queue.peek()[0].state == "leased"


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


VICTIM = """
import os, signal, sys
from turnabout.worker import Worker
url, step = sys.argv[1:]
worker = Worker(url, poll_seconds=0.05)

@worker.handler("q", transaction=True, lease_seconds=0.3)
{a}def work(message, connection):
    {w}connection.execute(f"insert into business values ({{message.text()}}, 'x')")
    if message.text() == "2":
        if step == "acked":
            {w}message.ack()
        os.kill(os.getpid(), signal.SIGKILL)

worker.run()
"""


@pytest.mark.share(4)
@pytest.mark.parametrize("step", ["row", "acked"])
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
        # Back when its lease has run out, and charged: what kills its worker ends at last.
        (message,) = queue.receive(wait_seconds=30)
        assert (message.text(), message.crashes) == ("2", 1)
        message.release()

        def handler(message: Any, execute: Any) -> None:
            execute(insert(message.text()))

        worker_of(url, kind, handler).run(until_empty=True)
        assert rows(url) == set(range(5))


def test_a_stopped_worker_gives_back_what_its_handler_would_not_end(
    url: str, kind: str, queue: Any
) -> None:
    queue.send("1")
    worker = Worker(url, poll_seconds=0.05, grace_seconds=0.1)
    release, threads = threading.Event(), list[threading.Thread]()

    def work_in_thread(message: Any, connection: Any) -> None:
        threads.append(threading.current_thread())
        worker.stop()
        release.wait(20)
        connection.execute(insert(1))

    async def work(message: Any, connection: Any) -> None:
        await connection.execute(insert(1))
        worker.stop()
        await asyncio.sleep(30)

    chosen: Any = work if kind == "postgres-async" else work_in_thread
    worker.handler("q", transaction=True)(chosen)
    worker.run()
    release.set()
    for thread in threads:
        thread.join(20)
    (got,) = queue.receive()
    assert (got.crashes, rows(url)) == (0, set())


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


def test_a_limit_is_used_up() -> None:
    """Two of a channel at once, where two may be: no transaction locks the channel."""
    with postgres_place() as url, turnabout.connect(url) as mq:
        mq.queue("q").create()
        mq.queue("q").channel("c").set_policy(turnabout.Policy(max_concurrency=2))
        mq.queue("q").send_many(turnabout.message(str(n), channel="c") for n in range(4))
        worker, both = Worker(url, poll_seconds=0.05), threading.Barrier(2)

        @worker.handler("q", transaction=True, concurrency=4)
        def work(message: Any, connection: Any) -> None:
            both.wait(40)
            connection.execute(insert(message.text()))

        assert worker.run(until_empty=True).handled == 4
        assert rows(url) == set(range(4))


def test_an_async_handler_is_cancelled_with_its_transaction() -> None:
    with postgres_place() as url, turnabout.connect(url) as mq:
        (id_,) = mq.queue("q").send_many([turnabout.message("1")]).ids
        worker = Worker(url, poll_seconds=0.05)

        @worker.handler("q", transaction=True, cancellable=True, lease_seconds=0.5)
        async def work(message: Any, connection: psycopg.AsyncConnection[Any]) -> None:
            await connection.execute("insert into business values (1, 'x')")
            await asyncio.to_thread(mq.queue("q").cancel, [id_])
            await asyncio.Event().wait()

        stats = worker.run(until_empty=True)
        assert (stats.cancelled, stats.handled) == (1, 0)
        assert rows(url) == set()


def test_a_handler_cannot_commit_by_itself() -> None:
    with postgres_place() as url, turnabout.connect(url) as mq:
        mq.queue("q").create(max_attempts=1)
        mq.queue("q").send("1")
        worker = Worker(url, poll_seconds=0.05)

        @worker.handler("q", transaction=True)
        def work(message: Any, connection: psycopg.Connection[Any]) -> None:
            with connection.transaction():  # a savepoint
                connection.execute("insert into business values (1, 'x')")
            connection.commit()

        assert worker.run(until_empty=True).failed == 1
        assert rows(url) == set()


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

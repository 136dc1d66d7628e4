"""Workers over HTTP: as over a database, and a server that goes away is waited for."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

import turnabout
import turnabout.aio
from tests.support.served import Server
from turnabout.worker import Worker

pytestmark = pytest.mark.slow

SECONDS = 20.0


@contextlib.asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[None]:
    """The worker at work; stopped and waited for at the end."""
    task = asyncio.create_task(worker.run_async())
    try:
        yield
    finally:
        worker.stop()
        async with asyncio.timeout(SECONDS):
            await task


def the_queue(server: Server, *payloads: Any) -> Any:
    """The queue `work` with these in it, over a connection that closes with the test."""
    with turnabout.connect(server.url) as mq:
        mq.queue("work").create(backoff_seconds=0.01)
        mq.queue("work").send_many(turnabout.message(one) for one in payloads)


def stats(server: Server) -> turnabout.QueueStats:
    with turnabout.connect(server.url) as mq:
        return mq.queue("work").stats()


def test_handlers_of_both_colours_until_empty(server: Server) -> None:
    the_queue(server, *range(10))
    with turnabout.connect(server.url) as mq:
        more = mq.queue("more")
        more.create(backoff_seconds=3600)
        more.send_many(turnabout.message(n) for n in range(10))
    got: list[tuple[str, int]] = []
    worker = Worker(server.url, grace_seconds=5)

    @worker.handler("work", concurrency=3)
    async def in_the_loop(message: Any) -> dict[str, int]:
        got.append(("work", message.json()))
        return {"seen": message.json()}

    @worker.handler("more", concurrency=3)
    def in_a_thread(message: Any) -> None:
        if message.json() == 3:
            raise ValueError("not yet")
        if message.json() == 4:
            message.ack()
        got.append(("more", message.json()))

    done = worker.run(until_empty=True)
    rest = [("more", n) for n in range(10) if n != 3]  # that one is due again when we are gone
    assert sorted(got) == [*rest, *(("work", n) for n in range(10))]
    assert (done.handled, done.failed, done.lost) == (19, 1, 0)
    with turnabout.connect(server.url) as mq:
        results = [entry.result.json() for entry in mq.queue("work").history_entries()]
    assert sorted(result["seen"] for result in results) == list(range(10))


def test_a_server_that_restarts_is_waited_for(server: Server) -> None:
    the_queue(server, *range(5))
    got: list[int] = []
    taken, more, all_there = threading.Event(), threading.Event(), threading.Event()
    worker = Worker(server.url)

    @worker.handler("work", concurrency=2, lease_seconds=5)
    def handle(message: Any) -> None:
        taken.set()
        assert more.wait(SECONDS)
        got.append(message.json())
        if len(set(got)) == 10:
            all_there.set()

    async def main() -> None:
        async with running(worker):
            await asyncio.to_thread(taken.wait, SECONDS)
            await asyncio.to_thread(server.stop)
            more.set()  # these end while nobody can be told
            await asyncio.sleep(0.3)
            await asyncio.to_thread(server.start)
            async with turnabout.aio.connect(server.url) as mq:
                await mq.queue("work").send_many(turnabout.message(n) for n in range(5, 10))
            assert await asyncio.to_thread(all_there.wait, SECONDS)

    asyncio.run(main())
    assert sorted(set(got)) == list(range(10))
    assert len(got) == 10  # what was handled meanwhile was acked when the server was back
    assert stats(server).done == 10


def test_a_transaction_is_refused(server: Server) -> None:
    worker = Worker(server.url)

    @worker.handler("work", transaction=True)
    def handle(message: Any, connection: Any) -> None:
        pass

    with pytest.raises(turnabout.UsageError, match="needs the database itself, not a server"):
        worker.run(until_empty=True)

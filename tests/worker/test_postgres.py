"""A worker on PostgreSQL, whose server goes away in the middle and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.postgres import own_server
from turnabout import aio, message
from turnabout._connect import installer
from turnabout.worker import AsyncMessage, Worker

pytestmark = pytest.mark.slow

MESSAGES = 200


@pytest.fixture
def server() -> Iterator[Any]:
    """A server of this test's own: it is torn down while it is used."""
    with own_server(profile="durable") as server:
        installer(server.url()).up(server.url())
        yield server


@pytest.mark.parametrize("prefetch", [0, 20])
def test_the_worker_lives_through_a_crash_of_the_server(server: Any, prefetch: int) -> None:
    async def check() -> None:
        worker = Worker(server.url(), poll_seconds=1)
        seen: set[int] = set()
        enough, go = asyncio.Event(), asyncio.Event()

        @worker.handler("work", concurrency=10, prefetch=prefetch, lease_seconds=15)
        async def handle(message: AsyncMessage) -> None:
            seen.add(message.json())
            if len(seen) == MESSAGES // 2:
                enough.set()
            if enough.is_set():
                await go.wait()

        async with aio.connect(server.url()) as mq:
            queue = mq.queue("work")
            await queue.send_many([message(n, channel=str(n % 5)) for n in range(MESSAGES)])
            working = asyncio.create_task(worker.run_async())
            await enough.wait()
            # Not a kill of the postmaster alone: a busy backend outlives that, and takes acks.
            await asyncio.to_thread(server.stop, "immediate")
            go.set()  # handlers end while nobody can be told
            await asyncio.sleep(0.3)
            assert not working.done()
            await asyncio.to_thread(server.start)
            while (await queue.stats()).done < MESSAGES:  # noqa: ASYNC110 - of the database
                await asyncio.sleep(0.05)
            worker.stop()
            stats = await working
        assert seen == set(range(MESSAGES))
        # The crash voids leases: that work is done again, and nobody is charged for it. An ack
        # whose answer was lost is repeated, and finds perhaps that the second time is over, too.
        assert MESSAGES <= stats.handled <= MESSAGES + 10 + prefetch
        assert stats.failed == 0
        assert 0 < stats.lost <= 10 + prefetch

    asyncio.run(asyncio.wait_for(check(), 45))

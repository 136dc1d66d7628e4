"""`slots`: a worker holds so many messages at once, over all of its queues."""

import asyncio

from tests.worker.support import Place, alive
from turnabout.worker import AsyncMessage, GiveUp

QUEUES = ("a", "b", "c")


@alive
async def test_a_worker_holds_no_more_than_its_slots(place: Place) -> None:
    worker, held, most = place.worker(slots=2), 0, 0

    async def handle(message: AsyncMessage) -> None:
        nonlocal held, most
        leased = sum([(await place.turnabout.queue(name).stats()).leased for name in QUEUES])
        held, most = held + 1, max(most, held + 1, leased)
        await asyncio.sleep(0)
        held -= 1
        if message.text() == "0":
            raise GiveUp

    for name in QUEUES:
        worker.handler(name, concurrency=5, prefetch=3)(handle)
        await place.send(*map(str, range(20)), queue=name)
    stats = await worker.run_async(until_empty=True)
    assert (stats.handled, stats.failed) == (57, 3)
    assert most == 2

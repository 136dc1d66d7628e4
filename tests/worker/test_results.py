"""What a handler returns is the result of its ack, for those who wait."""

import asyncio
import logging
from typing import Any

import pytest

from tests.worker.support import Place, alive, running
from turnabout import Ending
from turnabout.words.verbs import Ack
from turnabout.worker import AsyncMessage, Defer, GiveUp, Message


async def endings(place: Place, count: int) -> list[Any]:
    """How the first messages ended."""
    return list(await place.queue.endings(range(1, count + 1)))


def value_of(ending: Ending) -> object:
    assert ending.outcome == "done"
    if ending.result is None:
        return None
    kind = ending.result.content_type
    return ending.result.json() if kind == "application/json" else ending.result.data


@pytest.mark.parametrize("kind", ["sync", "async"])
@alive
async def test_the_value_returned_is_kept(place: Place, kind: str) -> None:
    worker = place.worker()
    values = [None, 0, False, "", [], {"pages": 12}, b"\x00", "text"]
    if kind == "sync":

        @worker.handler("work", concurrency=4)
        def handle(message: Message) -> object:
            return values[message.json()]
    else:

        @worker.handler("work", concurrency=4)
        async def handle_async(message: AsyncMessage) -> object:
            return values[message.json()]

    assert (await place.worked_off(worker, *range(len(values)))).handled == len(values)
    kept = [value_of(ending) for ending in await endings(place, len(values))]
    assert kept == [None, 0, False, b"", [], {"pages": 12}, b"\x00", b"text"]


@alive
async def test_a_value_that_cannot_be_kept_does_not_undo_the_work(place: Place) -> None:
    worker = place.worker()
    values = [object(), float("nan"), b"x" * (1024 * 1024 + 1), "fine"]

    @worker.handler("work")
    def handle(message: Message) -> object:
        return values[message.json()]

    await place.send(*range(4))
    records: list[logging.LogRecord] = []
    log = logging.getLogger("turnabout.worker")
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    log.addHandler(handler)
    try:
        assert (await worker.run_async(until_empty=True)).handled == 4
    finally:
        log.removeHandler(handler)
    kept = [value_of(ending) for ending in await endings(place, 4)]
    assert kept == [None, None, None, b"fine"]
    assert sum("not kept as the result" in record.getMessage() for record in records) == 3


@alive
async def test_defer_and_give_up_may_be_returned_as_well_as_raised(place: Place) -> None:
    worker = place.worker()

    @worker.handler("work")
    def handle(message: Message) -> object:
        if message.state is None:
            return Defer(state=b"seen")
        return GiveUp("enough")

    stats = await place.worked_off(worker, "x")
    assert (stats.deferred, stats.failed) == (1, 1)
    (ending,) = await endings(place, 1)
    assert (ending.outcome, ending.error) == ("dead", "enough")


@alive
async def test_what_a_handler_settled_itself_stays_so(place: Place) -> None:
    worker = place.worker()

    @worker.handler("work")
    async def handle(message: AsyncMessage) -> str:
        await message.ack(result="mine")
        return "not this"

    await place.worked_off(worker, "x")
    (ending,) = await endings(place, 1)
    assert ending.result.text() == "mine"
    assert len(place.store.of(Ack)) == 1


@alive
async def test_large_results_go_in_several_calls(place: Place) -> None:
    worker, all_there = place.worker(), asyncio.Barrier(12)

    @worker.handler("work", concurrency=12)
    async def handle(message: AsyncMessage) -> bytes:
        await all_there.wait()
        return bytes(1024 * 1024)

    await place.worked_off(worker, *range(12))
    sizes = [len(ack.receipts) for ack in place.store.of(Ack)]
    assert sum(sizes) == 12
    assert max(sizes) == 4


@alive
async def test_somebody_else_waits_for_it(place: Place) -> None:
    worker = place.worker()

    @worker.handler("work")
    def handle(message: Message) -> object:
        return message.json() * 2

    async with running(worker):
        ending = await place.queue.send_and_wait(21, timeout_seconds=10)
    assert isinstance(ending, Ending)
    assert value_of(ending) == 42

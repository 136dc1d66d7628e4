"""Cancelling what is being handled: heartbeats bring the wish, the handler ends, or goes on."""

import asyncio
import contextlib
import threading

import pytest

import turnabout
from tests.worker.support import SECONDS, Place, alive, running
from tests.worker.yard import Yard
from turnabout import Ending
from turnabout.words.errors import UsageError
from turnabout.words.outcomes import Cancelled, CancelRequested
from turnabout.words.verbs import Ack, Extend, Fail, Release
from turnabout.worker import AsyncMessage, Defer, GiveUp, Message

LEASE = 0.6


async def outcome(place: Place, number: int = 1) -> str:
    (ending,) = await place.queue.wait([number], timeout_seconds=SECONDS)
    assert isinstance(ending, Ending)
    return ending.outcome


@alive
async def test_a_cancellable_handler_is_cancelled(place: Place) -> None:
    worker, begun, seen = place.worker(), asyncio.Event(), list[bool]()

    @worker.handler("work", lease_seconds=LEASE, cancellable=True)
    async def handle(message: AsyncMessage) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(message.cancel_requested)

    async with place.begun(worker, begun, "x"):
        assert await place.queue.cancel([1]) == (CancelRequested(),)
        assert await outcome(place) == "cancelled"
        await place.store.until(Release)
    assert seen == [True]
    assert (worker.stats.cancelled, worker.stats.released, worker.stats.lost) == (1, 0, 0)
    assert place.store.of(Ack) == place.store.of(Fail) == []


@alive
async def test_a_handler_that_ends_well_nevertheless_is_done(place: Place) -> None:
    worker, begun = place.worker(), asyncio.Event()

    @worker.handler("work", lease_seconds=LEASE, cancellable=True)
    async def handle(_message: AsyncMessage) -> str:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "as far as it came"

    async with place.begun(worker, begun, "x"):
        await place.queue.cancel([1])
        assert await outcome(place) == "done"
    assert (worker.stats.handled, worker.stats.cancelled) == (1, 0)


@pytest.mark.parametrize("error", [ValueError("cleaning up"), Defer(), GiveUp("enough")])
@alive
async def test_whatever_it_raises_the_message_ends_as_cancelled(
    place: Place, error: Exception
) -> None:
    worker, begun = place.worker(), asyncio.Event()

    @worker.handler("work", lease_seconds=LEASE, cancellable=True)
    async def handle(_message: AsyncMessage) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise error from None

    async with place.begun(worker, begun, "x"):
        await place.queue.cancel([1])
        assert await outcome(place) == "cancelled"
    assert worker.stats.cancelled == 1
    assert worker.stats.failed == worker.stats.deferred == 0


@alive
async def test_one_that_did_not_ask_for_it_is_only_told(place: Place) -> None:
    worker, begun, told = place.worker(), asyncio.Event(), asyncio.Event()

    @worker.handler("work", lease_seconds=LEASE)
    async def handle(message: AsyncMessage) -> str:
        begun.set()
        while not message.cancel_requested:  # noqa: ASYNC110 - as a handler would
            await asyncio.sleep(0.01)
        told.set()
        return "ready anyway"

    async with place.begun(worker, begun, "x"):
        await place.queue.cancel([1])
        await asyncio.wait_for(told.wait(), SECONDS)
        assert await outcome(place) == "done"


@alive
async def test_a_thread_looks_for_itself(place: Place) -> None:
    worker, begun = place.worker(), threading.Event()

    @worker.handler("work", lease_seconds=LEASE)
    def handle(message: Message) -> None:
        begun.set()
        while not message.cancel_requested:
            threading.Event().wait(0.01)
        raise GiveUp("as asked")

    await place.send("x")
    async with running(worker):
        await asyncio.to_thread(begun.wait, SECONDS)
        await place.queue.cancel([1])
        assert await outcome(place) == "cancelled"
    assert worker.stats.cancelled == 1


@alive
async def test_the_handler_s_own_extend_brings_the_news_too(place: Place) -> None:
    worker, begun, seen = place.worker(), asyncio.Event(), list[bool]()

    @worker.handler("work", lease_seconds=20, cancellable=True)
    async def handle(message: AsyncMessage) -> None:
        begun.set()
        while not message.cancel_requested:
            await asyncio.sleep(0.01)
            await message.extend()
        seen.append(True)
        raise GiveUp("as asked")

    async with place.begun(worker, begun, "x"):
        await place.queue.cancel([1])
        assert await outcome(place) == "cancelled"
    assert seen == [True]


@alive
async def test_what_only_was_fetched_ahead_never_begins(place: Place) -> None:
    worker, begun, go = place.worker(), list[object](), asyncio.Event()

    @worker.handler("work", prefetch=2, lease_seconds=LEASE)
    async def handle(message: AsyncMessage) -> None:
        begun.append(message.json())
        await go.wait()

    await place.send(1, 2, 3)
    async with running(worker):
        await place.store.until(Extend)
        assert await place.queue.cancel([2]) == (CancelRequested(),)
        assert await outcome(place, 2) == "cancelled"
        go.set()
        assert [await outcome(place, number) for number in (1, 3)] == ["done", "done"]
    assert begun == [1, 3]
    assert worker.stats.cancelled == 1


@alive
async def test_only_a_coroutine_can_be_cancelled(place: Place) -> None:
    with pytest.raises(UsageError, match="cancel_requested"):
        place.worker().handler("work", cancellable=True)(lambda _message: None)
    with pytest.raises(UsageError, match="cancellable"):
        place.worker().handler("work", cancellable=1)  # type: ignore[arg-type]


# --- real processes ------------------------------------------------------------------------------

STOPPABLE = """
    import asyncio

    @worker.handler("work", concurrency=8, lease_seconds=0.5, cancellable=True)
    async def handle(message):
        note("begun", message.id)
        await asyncio.sleep(message.json())
        note("ended", message.id)
"""


@pytest.mark.slow
def test_a_cancel_reaches_the_handler_in_another_process(yard_anywhere: Yard) -> None:
    long = yard_anywhere.queue.send(600).id
    yard_anywhere.start(yard_anywhere.module("stoppable", STOPPABLE))
    yard_anywhere.until(lambda: yard_anywhere.lines("begun") == [str(long)])
    assert yard_anywhere.queue.cancel([long]) == (CancelRequested(),)
    (ending,) = yard_anywhere.queue.wait([long], timeout_seconds=20)
    assert ending is not None
    assert ending.outcome == "cancelled"
    assert yard_anywhere.lines("ended") == []


@pytest.mark.slow
def test_cancels_that_race_with_workers_end_each_message_once(yard_anywhere: Yard) -> None:
    """Some are cancelled as they wait, some as they run, some too late; killed workers between."""
    ids = yard_anywhere.queue.send_many(
        turnabout.message(seconds) for seconds in [0.0, 0.02, 0.3, 0.0, 1.5, 0.05] * 30
    ).ids
    target = yard_anywhere.module("stoppable", STOPPABLE)
    workers = [yard_anywhere.start(target) for _ in range(2)]
    yard_anywhere.until(lambda: len(yard_anywhere.lines("begun")) > 20)
    answers = dict(zip(ids[::2], yard_anywhere.queue.cancel(ids[::2]), strict=True))
    workers[0].kill()
    yard_anywhere.start(target)
    endings = dict(zip(ids, yard_anywhere.queue.wait(ids, timeout_seconds=60), strict=True))
    told = {number: ending.outcome for number, ending in endings.items() if ending is not None}
    assert len(told) == len(ids)
    stats = yard_anywhere.queue.stats()
    assert (stats.done + stats.cancelled, stats.sent) == (len(ids), len(ids))
    done = {number for number, what in told.items() if what == "done"}
    assert set(ids[1::2]) <= done
    assert done <= {int(line) for line in yard_anywhere.lines("ended")}
    at_once = {number for number, answer in answers.items() if answer == Cancelled()}
    asked = {number for number, answer in answers.items() if answer == CancelRequested()}
    assert at_once
    assert asked
    assert all(told[number] == "cancelled" for number in at_once)
    assert at_once.isdisjoint(int(line) for line in yard_anywhere.lines("begun"))

"""Time limits of handlers: the attempt fails, and neither slot nor channel waits for who hangs."""

import asyncio
import contextlib
import threading

import pytest

from tests.worker.support import SECONDS, Place, Timers, alive, running
from turnabout.words.entities import Peeked
from turnabout.words.errors import UsageError
from turnabout.words.verbs import Ack, Fail
from turnabout.worker import AsyncMessage, HandlersHung, Message, Worker
from turnabout.worker.run import Run

LIMIT = 0.02


async def failed(place: Place) -> Peeked:
    """The message whose attempt has failed."""
    await place.store.until(Fail)
    return next(message for message in await place.queue.peek() if message.failures)


@alive
async def test_an_async_handler_is_cancelled_and_its_message_fails(place: Place) -> None:
    await place.queue.create(backoff_seconds=3600)
    worker, seen = place.worker(timeout_seconds=LIMIT), list[str]()

    @worker.handler("work")
    async def handle(message: AsyncMessage) -> None:
        if message.text() == "hangs":
            await asyncio.Event().wait()
        seen.append(message.text())

    stats = await place.worked_off(worker, "hangs", "works")
    assert (stats.failed, stats.handled, seen) == (1, 1, ["works"])
    left = await failed(place)
    assert (left.state, left.failures, left.crashes) == ("scheduled", 1, 0)
    assert left.error is not None
    assert "await asyncio.Event().wait()" in left.error  # where it was
    assert left.error.rstrip().endswith("the handler did not end within 0.02 s (timeout_seconds)")


@pytest.mark.parametrize("colour", ["sync", "async"])
@alive
async def test_one_that_will_not_end_loses_its_message_and_its_place(
    place: Place, colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A FIFO channel goes on, too, though its first handler still runs."""
    await place.queue.create(fifo=True, max_attempts=1)
    timers = Timers(monkeypatch)
    worker, go, told = place.worker(timeout_seconds=60), threading.Event(), list[bool]()
    over, released = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    if colour == "sync":

        @worker.handler("work", lease_seconds=60)
        def hang_in_a_thread(message: Message) -> None:
            if message.text() == "hangs":
                timers.pass_by(message)
                told.append(message.stop_event.wait(SECONDS) and message.lost)
                go.wait(SECONDS)
                loop.call_soon_threadsafe(over.set)

    else:

        @worker.handler("work", lease_seconds=60)
        async def hang_on_the_loop(message: AsyncMessage) -> None:
            if message.text() == "hangs":
                for _ in range(2):  # its own limit, and that for hearing of it
                    timers.pass_by(message)
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.sleep(0.001)
                await released.wait()
                told.append(message.lost)
                over.set()

    await place.send("hangs", "next")
    async with running(worker):
        await place.store.until(Ack)
        (dead,) = await place.turnabout.queue("work-dead").peek()
        assert dead.origin is not None
        assert "did not end within 60 s" in (dead.origin.last_error or "")
        if colour == "sync":  # where its thread is
            assert "in hang_in_a_thread" in (dead.origin.last_error or "")
        go.set()
        released.set()
        await asyncio.wait_for(over.wait(), SECONDS)
    assert told == [True]
    assert (worker.stats.failed, worker.stats.handled) == (1, 1)


@alive
async def test_one_that_has_acked_and_hangs_then_only_loses_its_place(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers, worker = Timers(monkeypatch), place.worker(timeout_seconds=60)

    @worker.handler("work")
    def handle(message: Message) -> None:
        message.ack()
        if message.text() == "hangs":
            timers.pass_by(message)
            message.stop_event.wait(SECONDS)

    stats = await place.worked_off(worker, "hangs", "next")
    assert (stats.handled, stats.failed, stats.lost) == (2, 0, 0)
    assert (await place.queue.stats()).done == 2


@alive
async def test_too_many_that_hang_end_the_worker(place: Place) -> None:
    worker, go = place.worker(max_hung=2, timeout_seconds=3600), threading.Event()

    @worker.handler("work", timeout_seconds=LIMIT)
    def handle(_message: Message) -> None:
        go.wait(SECONDS)

    await place.send(*range(5))
    with pytest.raises(HandlersHung, match="2 handlers hang"):
        await asyncio.wait_for(worker.run_async(), SECONDS)
    go.set()
    left = await place.queue.peek()
    failures = [message.failures for message in left]
    assert failures[:2] == [1, 1]
    assert failures[-1] == 0, "the worker did not take what nobody would have ended"


@alive
async def test_what_ends_after_all_is_not_held_against_the_worker(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers, ended, hangs = Timers(monkeypatch), asyncio.Event(), Run.hangs
    worker = place.worker(max_hung=2, timeout_seconds=60)

    def note(run: Run, more: int) -> None:
        hangs(run, more)
        if more < 0:
            ended.set()

    monkeypatch.setattr(Run, "hangs", note)

    @worker.handler("work")
    def end_late(message: Message) -> None:
        timers.pass_by(message)
        message.stop_event.wait(SECONDS)

    async with running(worker):
        for number in range(2):
            await place.send(number)
            await asyncio.wait_for(ended.wait(), SECONDS)
            ended.clear()
    assert (worker.stats.failed, worker.stats.lost) == (2, 0)


@alive
async def test_a_handler_may_be_without_the_limit_of_its_worker(place: Place) -> None:
    worker = place.worker(timeout_seconds=0.001)

    @worker.handler("work", timeout_seconds=0)
    async def handle(_message: AsyncMessage) -> None:
        await asyncio.sleep(LIMIT)

    assert (await place.worked_off(worker, "x")).handled == 1


@pytest.mark.parametrize("limit", [-1, float("nan"), 10**9, "1"])
def test_limits_out_of_range_are_refused(limit: float) -> None:
    with pytest.raises(UsageError, match="timeout_seconds"):
        Worker("sqlite://", timeout_seconds=limit)
    with pytest.raises(UsageError, match="timeout_seconds"):
        Worker("sqlite://").handler("work", timeout_seconds=limit)

"""Leases: kept while handlers run; when one is lost, its handler is told, its ack refused."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable

import pytest

from tests.worker.support import SECONDS, Place, alive, running, waiting
from turnabout.words.errors import Disconnected, Uncertain
from turnabout.words.verbs import Ack, Extend, Fail, Receive, Verb
from turnabout.worker import AsyncMessage, Message

LEASE = 0.6


async def steal(place: Place) -> None:
    """Let the lease run out by the database's clock, and take the message."""
    place.clock.advance(3600)
    assert len(await place.queue.receive(10)) == 1


@alive
async def test_one_extend_for_all_messages_in_flight(place: Place) -> None:
    worker, go = place.worker(), asyncio.Event()

    @worker.handler("work", concurrency=3, prefetch=2, lease_seconds=2 * LEASE)
    async def handle(_message: AsyncMessage) -> None:
        await go.wait()

    await place.send(*range(5))
    async with running(worker):
        await place.store.until(Extend, 2)
        go.set()
        await place.store.until(Ack)
    assert all(len(extend.receipts) == 5 for extend in place.store.of(Extend)[:2])
    assert worker.stats.lost == 0


@alive
async def test_a_refused_extend_cancels_an_async_handler(place: Place) -> None:
    worker, begun, ended = place.worker(), asyncio.Event(), asyncio.Event()
    messages: list[AsyncMessage] = []

    @worker.handler("work", lease_seconds=LEASE)
    async def handle(message: AsyncMessage) -> None:
        messages.append(message)
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with place.begun(worker, begun, "x"):
        await steal(place)
        await asyncio.wait_for(ended.wait(), SECONDS)
        assert messages[0].lost
    assert place.store.of(Ack) == []
    assert place.store.of(Fail) == []
    assert worker.stats.lost == 1


@alive
async def test_a_refused_extend_tells_a_threaded_handler_and_its_ack_is_not_sent(
    place: Place,
) -> None:
    worker, begun, over = place.worker(), asyncio.Event(), list[bool]()
    loop = asyncio.get_running_loop()

    @worker.handler("work", lease_seconds=LEASE)
    def handle(message: Message) -> None:
        loop.call_soon_threadsafe(begun.set)
        pause = threading.Event()
        for _ in range(1_000):
            if message.lost:
                break
            pause.wait(0.01)
        over.append(message.lost)

    async with place.begun(worker, begun, "x"):
        await steal(place)
        await place.store.until(Extend)
    assert over == [True]
    assert place.store.of(Ack) == []
    assert worker.stats.lost == 1


def test_a_late_ack_is_refused_logged_and_not_repeated(caplog: pytest.LogCaptureFixture) -> None:
    @alive
    async def check(place: Place) -> None:
        worker, begun, go = place.worker(), asyncio.Event(), asyncio.Event()

        worker.handler("work", heartbeat=False)(waiting(begun, go))

        async with place.begun(worker, begun, "secret payload"):
            await steal(place)
            go.set()
            await place.store.until(Ack)
        assert len(place.store.of(Ack)) == 1
        assert (worker.stats.handled, worker.stats.lost) == (0, 1)
        assert (await place.queue.stats()).leased == 1  # the thief's

    with caplog.at_level(logging.DEBUG, "turnabout.worker"):
        check()
    assert "working on work" in caplog.text
    assert "too late for message" in caplog.text
    assert "secret payload" not in caplog.text


def until_lost(ended: asyncio.Event) -> Callable[[AsyncMessage], Awaitable[None]]:
    async def handle(message: AsyncMessage) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            assert message.lost
            ended.set()

    return handle


@alive
async def test_without_a_heartbeat_our_own_clock_tells_of_the_end(place: Place) -> None:
    worker, ended = place.worker(), asyncio.Event()

    worker.handler("work", heartbeat=False, lease_seconds=0.1)(until_lost(ended))

    await place.send("x")
    async with running(worker):
        await asyncio.wait_for(ended.wait(), SECONDS)
        worker.stop()
    assert worker.stats.lost == 1
    assert place.store.of(Extend) == []


@alive
async def test_the_handlers_own_ack_and_a_beat_do_not_disturb_one_another(place: Place) -> None:
    """The ack is on its way when the beat comes: no message is taken for lost."""
    worker = place.worker()

    @worker.handler("work", concurrency=5, lease_seconds=LEASE)
    async def handle(message: AsyncMessage) -> None:
        await asyncio.sleep(LEASE * 2 / 3)
        await message.ack()
        await asyncio.sleep(LEASE * 5 / 3)
        assert not message.lost

    stats = await place.worked_off(worker, *range(5))
    assert (stats.handled, stats.lost, stats.failed) == (5, 0, 0)


@alive
async def test_a_worker_with_busy_handlers_ends_what_has_died_of_crashes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnabout.worker.run.UPKEEP_SECONDS", 0)
    monkeypatch.setattr("turnabout.worker.run.MAINTAIN_SECONDS", 0.001)
    await place.queue.create(max_attempts=1)
    worker, begun, go = place.worker(), asyncio.Event(), asyncio.Event()

    worker.handler("work", lease_seconds=3600)(waiting(begun, go))

    await place.send("crashed", "busy")
    await place.queue.receive(lease_seconds=1)
    async with running(worker):
        await begun.wait()
        place.clock.advance(1)
        while not (await place.queue.stats()).dead:  # noqa: ASYNC110 - of the database
            await asyncio.sleep(0.001)
        go.set()


# --- outages ---


@alive
async def test_the_worker_waits_for_the_database_and_goes_on(place: Place) -> None:
    worker, seen = place.worker(), list[object]()

    @worker.handler("work", concurrency=2)
    async def handle(message: AsyncMessage) -> None:
        seen.append(message.json())
        if len(seen) == 2:
            failures["left"] = 4

    failures = {"left": 2}  # the database is not even there at the start

    def fail(_verb: Verb[object]) -> None:
        if failures["left"]:
            failures["left"] -= 1
            raise Disconnected("away")

    await place.send(*range(6))
    place.store.before = fail
    stats = await worker.run_async(until_empty=True)
    assert sorted(seen) == list(range(6))  # type: ignore[type-var]
    assert (stats.handled, stats.lost) == (6, 0)
    assert (await place.queue.stats()).done == 6


@pytest.mark.parametrize("when", ["before", "after"])
@alive
async def test_an_uncertain_ack_is_repeated(place: Place, when: str) -> None:
    worker = place.worker()
    worker.handler("work")(lambda _message: None)
    tries = 0

    def fail(verb: Verb[object]) -> None:
        nonlocal tries
        if isinstance(verb, Ack) or getattr(verb, "acks", ()):
            tries += 1
            if tries == 1:
                raise Uncertain("no answer")

    setattr(place.store, when, fail)
    stats = await place.worked_off(worker, "x")
    assert tries == 2
    assert (stats.handled, stats.lost) == (1, 0)
    assert (await place.queue.stats()).done == 1


@alive
async def test_a_lease_that_cannot_be_extended_is_given_up_at_its_end(place: Place) -> None:
    worker, ended = place.worker(), asyncio.Event()

    worker.handler("work", lease_seconds=LEASE)(until_lost(ended))

    def fail(verb: Verb[object]) -> None:
        if isinstance(verb, Extend):
            raise Disconnected("away")

    place.store.before = fail
    await place.send("x")
    async with running(worker):
        await asyncio.wait_for(ended.wait(), SECONDS)
    assert worker.stats.lost == 1


@alive
async def test_a_deleted_queue_ends_nothing(place: Place) -> None:
    worker = place.worker(poll_seconds=0.01)
    handled = asyncio.Event()

    @worker.handler("work")
    async def handle(message: AsyncMessage) -> None:
        if message.text() == "after":
            handled.set()

    async with running(worker):
        await place.store.until(Receive)
        await place.queue.delete()
        await place.send("after")
        await asyncio.wait_for(handled.wait(), SECONDS)

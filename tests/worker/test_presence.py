"""A worker says who it is and what it holds; and goes on where nobody wants to hear it."""

import asyncio

import pytest

from tests.worker.support import Place, alive
from turnabout.words.errors import Forbidden, QueueNotFound, Unavailable
from turnabout.words.verb import Verb
from turnabout.words.verbs import Fail, WorkerReport
from turnabout.words.workers import this_process
from turnabout.worker import AsyncMessage, presence


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "FIRST_SECONDS", 0.05)
    monkeypatch.setattr(presence, "REPORT_SECONDS", 0.05)


@alive
async def test_it_is_listed_with_what_it_holds_until_it_ends(place: Place) -> None:
    worker, begun, seen = place.worker(name="mailer"), asyncio.Event(), asyncio.Event()

    @worker.handler("work", concurrency=3)
    async def handle(message: AsyncMessage) -> None:
        begun.set()
        await seen.wait()

    async with place.begun(worker, begun, "x"):
        await place.store.until(WorkerReport, len(place.store.of(WorkerReport)) + 2)
        (one,) = await place.queue.workers()
        assert one.worker.startswith(f"mailer@{this_process()}")
        assert (one.state.concurrency, one.state.handled) == (3, 0)
        assert [held.id for held in one.state.messages] == [1]
        seen.set()
    assert await place.queue.workers() == ()


@alive
async def test_a_failure_tells_the_name_that_is_listed(place: Place) -> None:
    worker, begun, seen = place.worker(name="mailer"), asyncio.Event(), asyncio.Event()

    @worker.handler("work", concurrency=2)
    async def handle(message: AsyncMessage) -> None:
        begun.set()
        if message.text() == "bad":
            raise ValueError
        await seen.wait()

    async with place.begun(worker, begun, "x", "bad"):
        await place.store.until(Fail)
        await place.store.until(WorkerReport)
        (one,) = await place.queue.workers()
        (error,) = [error for peeked in await place.queue.peek() for error in peeked.errors]
        assert error.worker == one.worker
        seen.set()


@alive
@pytest.mark.parametrize("error", [Unavailable("away"), QueueNotFound("work"), Forbidden("no")])
async def test_a_report_that_fails_harms_nobody(place: Place, error: Exception) -> None:
    worker, begun, tried = place.worker(), asyncio.Event(), list[Verb[None]]()

    def refuse(verb: Verb[object]) -> None:
        if isinstance(verb, WorkerReport):
            tried.append(verb)
            raise error

    place.store.before = refuse

    @worker.handler("work")
    async def handle(message: AsyncMessage) -> None:
        begun.set()
        await asyncio.sleep(0.3)

    async with place.begun(worker, begun, "x"):
        await place.queue.wait([1], timeout_seconds=10)
    assert worker.stats.handled == 1
    assert len(tried) == 1 if isinstance(error, Forbidden) else len(tried) > 1

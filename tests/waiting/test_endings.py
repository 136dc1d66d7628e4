"""Many who wait look together: one query for all of them, in threads and on a loop."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.loops import inside
from turnabout.waiting._async.endings import EndingPoller as AsyncEndingPoller
from turnabout.waiting._sync.endings import EndingPoller
from turnabout.words.errors import Unavailable
from turnabout.words.limits import IDS_MAX
from turnabout.words.records import Ending
from turnabout.words.verbs import Endings


class Answers:
    """Ends every odd message, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ...]] = []
        self.before: Callable[[], None] = lambda: None

    def run(self, verb: Endings) -> tuple[Ending | None, ...]:
        self.asked.append(verb.ids)
        self.before()
        return tuple(Ending(one, "done") if one % 2 else None for one in verb.ids)


class AsyncAnswers(Answers):
    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.was_asked = asyncio.Event()

    async def run(self, verb: Endings) -> tuple[Ending | None, ...]:  # type: ignore[override]
        self.asked.append(verb.ids)
        self.was_asked.set()
        await self.may_answer.wait()
        self.before()
        return tuple(Ending(one, "done") if one % 2 else None for one in verb.ids)


@asynccontextmanager
async def polled() -> AsyncIterator[tuple[AsyncAnswers, AsyncEndingPoller]]:
    store: Any = AsyncAnswers()
    yield store, AsyncEndingPoller(store, "q")


on_a_loop = inside(polled, 2)


@on_a_loop
async def test_what_is_asked_for_during_a_look_goes_together_into_the_next(store, poller):
    store.may_answer.clear()
    first = asyncio.create_task(poller.look([1]))
    await store.was_asked.wait()
    late = [asyncio.create_task(poller.look([one, 7])) for one in range(100, 200)]
    await asyncio.sleep(0)
    store.may_answer.set()
    assert await first == {1: Ending(1, "done")}
    found = await asyncio.gather(*late)
    assert store.asked == [(1,), (7, *range(100, 200))]
    assert found[0] == {7: Ending(7, "done")}
    assert set(found[-1]) == {7, 199}


@on_a_loop
async def test_one_that_is_cancelled_leaves_the_others_their_look(store, poller):
    store.may_answer.clear()
    leader = asyncio.create_task(poller.look([1]))
    await store.was_asked.wait()
    second = asyncio.create_task(poller.look([3]))  # leads the next round, waits for the first
    third = asyncio.create_task(poller.look([5]))
    await asyncio.sleep(0)
    leader.cancel()
    second.cancel()
    store.may_answer.set()
    assert await third == {5: Ending(5, "done")}
    for task in (leader, second):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await poller.look([7]) == {7: Ending(7, "done")}


@on_a_loop
async def test_an_error_reaches_everybody_in_the_round_and_nobody_after_it(store, poller):
    def broken() -> None:
        raise Unavailable("away")

    store.before = broken
    store.may_answer.clear()
    looks = [asyncio.create_task(poller.look([one])) for one in range(1, 20)]
    await store.was_asked.wait()
    store.may_answer.set()
    results = await asyncio.gather(*looks, return_exceptions=True)
    assert all(isinstance(result, Unavailable) for result in results)
    assert [len(ids) for ids in store.asked] == [1, 18]  # the first did not wait for the others
    store.before = lambda: None
    assert await poller.look([1])


@on_a_loop
async def test_more_than_fit_into_one_query_are_asked_for_in_several(store, poller):
    found = await poller.look(range(1, IDS_MAX + 3))
    assert [len(ids) for ids in store.asked] == [IDS_MAX, 2]
    assert len(found) == IDS_MAX // 2 + 1


def test_threads_look_together() -> None:
    store: Any = Answers()
    poller = EndingPoller(store, "q")
    began, go = threading.Event(), threading.Event()

    def slow() -> None:
        began.set()
        assert go.wait(10)

    store.before = slow
    found: dict[int, dict[int, Ending]] = {}

    def look(one: int) -> None:
        found[one] = poller.look([one])

    threads = [threading.Thread(target=look, args=(one,)) for one in range(1, 40)]
    threads[0].start()
    assert began.wait(10)
    for thread in threads[1:]:
        thread.start()
    while len(poller._line) < 39:
        time.sleep(0.001)
    go.set()
    for thread in threads:
        thread.join(10)
    assert store.asked == [(1,), tuple(range(2, 40))]
    assert sorted(found) == list(range(1, 40))
    assert found[39] == {39: Ending(39, "done")}

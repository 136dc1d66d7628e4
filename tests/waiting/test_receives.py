"""Receives that wait in one process share their looks: one message wakes one, in either colour."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import turnabout
import turnabout.aio
from tests.support.until import until
from turnabout.waiting._async.receives import QUIET_SECONDS, ReceiveGroup
from turnabout.words.errors import Disconnected
from turnabout.words.verbs import Receive, Verb

pytestmark = [pytest.mark.real_time]

CROWD = 60


class Counting:
    """A store that counts the looks, and may fail or keep them waiting."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.looks = 0
        self.before: Callable[[], Any] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def run(self, verb: Verb[Any]) -> Any:
        if isinstance(verb, Receive):
            self.looks += 1
            self.before()
        return self._store.run(verb)


async def quiet(store: Counting) -> None:
    """Until nobody looks any more."""
    looks = -1
    while looks != store.looks:
        looks = store.looks
        await asyncio.sleep(0.1)


async def crowd(queue: Any, store: Counting, count: int = CROWD, **more: Any) -> list[Any]:
    tasks = [asyncio.ensure_future(queue.receive(wait_seconds=20, **more)) for _ in range(count)]
    await quiet(store)
    return tasks


def url_in(folder: Path) -> str:
    return f"sqlite:///{folder}/app.db"


def lived(folder: Path, story: Callable[[Any, Counting], Any]) -> None:
    """A story told over a store that counts."""

    async def live() -> None:
        async with turnabout.aio.connect(url_in(folder)) as opened:
            store = Counting(opened.store)
            face = turnabout.aio.Turnabout(store)  # type: ignore[arg-type]
            await face.queue("q").create()
            await asyncio.wait_for(story(face, store), 30)

    asyncio.run(live())


def test_a_crowd_costs_few_looks_and_one_message_wakes_one(tmp_path: Path) -> None:
    async def story(face: Any, store: Counting) -> None:
        queue = face.queue("q")
        tasks = await crowd(queue, store)
        assert store.looks <= 5
        before = store.looks
        await queue.send("a")
        (message,) = await tasks[0]
        await quiet(store)
        assert message.text() == "a"
        assert sum(task.done() for task in tasks) == 1
        assert store.looks - before <= 4
        await queue.send_many(turnabout.message(text) for text in "bcd")
        assert [(await task)[0].text() for task in tasks[1:4]] == ["b", "c", "d"]
        for task in tasks:
            task.cancel()

    lived(tmp_path, story)


def test_another_process_wakes_one_as_well(tmp_path: Path) -> None:
    async def story(face: Any, store: Counting) -> None:
        tasks = await crowd(face.queue("q"), store)
        with turnabout.connect(url_in(tmp_path)) as other:
            other.queue("q").send("a")
            (message,) = await tasks[0]
        await quiet(store)
        assert message.text() == "a"
        assert sum(task.done() for task in tasks) == 1
        for task in tasks:
            task.cancel()

    lived(tmp_path, story)


def test_a_batch_is_shared_out_in_the_order_of_asking(tmp_path: Path) -> None:
    async def story(face: Any, store: Counting) -> None:
        queue = face.queue("q")
        first = (await crowd(queue, store, 1, max_messages=2))[0]
        second = (await crowd(queue, store, 1, max_messages=3))[0]
        await queue.send_many(turnabout.message(text) for text in "abcd")
        assert [message.text() for message in await first] == ["a", "b"]
        assert [message.text() for message in await second] == ["c", "d"]

    lived(tmp_path, story)


@pytest.mark.parametrize("turns", range(8))
def test_one_that_is_cancelled_at_any_moment_keeps_no_lease(tmp_path: Path, turns: int) -> None:
    async def story(face: Any, store: Counting) -> None:
        queue = face.queue("q")
        (task,) = await crowd(queue, store, 1)
        await queue.send("a")
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await quiet(store)
        kept = 0 if task.cancelled() else len(task.result())
        for _ in range(100):  # its look may be under way yet, and gives back what it finds then
            stats = await queue.stats()
            if stats.leased == kept:
                break
            await asyncio.sleep(0.05)
        assert (stats.ready, stats.leased) == (1 - kept, kept)

    lived(tmp_path, story)


def test_an_error_is_for_all_who_wait(tmp_path: Path) -> None:
    async def story(face: Any, store: Counting) -> None:
        queue = face.queue("q")
        tasks = await crowd(queue, store, 3)

        def fail() -> None:
            raise Disconnected("away")

        store.before = fail
        await queue.send("a")
        errors = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(error) for error in errors] == [Disconnected] * 3
        store.before = lambda: None
        assert len(await queue.receive(wait_seconds=5)) == 1

    lived(tmp_path, story)


@pytest.mark.slow
def test_after_silence_nobody_is_told_that_there_is_nothing(tmp_path: Path) -> None:
    """One waits for long and hears nothing, as the network is gone; others come for short waits."""

    async def story(face: Any, store: Counting) -> None:
        queue = face.queue("q")
        (long,) = await crowd(queue, store, 1)
        assert not await queue.receive(wait_seconds=0.01)
        (group,) = face._shared.waiters.values()
        group._answered_at -= QUIET_SECONDS

        def fail() -> None:
            raise Disconnected("away")

        store.before = fail
        with pytest.raises(Disconnected):
            await queue.receive(wait_seconds=0.01)
        with pytest.raises(Disconnected):
            await long

    lived(tmp_path, story)


def test_who_waits_leaves_after_its_time_and_the_others_stay(tmp_path: Path) -> None:
    async def story(face: Any, store: Counting) -> None:
        queue = face.queue("q")
        short = [asyncio.ensure_future(queue.receive(wait_seconds=1.5)) for _ in range(2)]
        (long,) = await crowd(queue, store, 1)
        looks = store.looks
        await queue.send("later", delay_seconds=60)
        for task in short:
            batch = await task
            assert not batch
            assert 30 < batch.retry_after_seconds <= 60
        assert not long.done()
        assert store.looks - looks <= 4
        long.cancel()
        assert not face._shared.waiters or not long.done()

    lived(tmp_path, story)


def test_a_message_that_becomes_due_is_handed_out(tmp_path: Path) -> None:
    async def story(face: Any, store: Counting) -> None:
        queue = face.queue("q")
        await queue.send("due", delay_seconds=0.5)
        tasks = await crowd(queue, store, 2)
        done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        assert [message.text() for task in done for message in task.result()] == ["due"]
        for task in waiting:
            task.cancel()

    lived(tmp_path, story)


def test_threads_share_their_looks_too(tmp_path: Path) -> None:
    got: list[str] = []
    with turnabout.connect(url_in(tmp_path)) as opened:
        store = Counting(opened.store)
        face = turnabout.Turnabout(store)  # type: ignore[arg-type]
        queue = face.queue("q")
        queue.create()

        def receive() -> None:
            got.extend(message.text() for message in queue.receive(wait_seconds=20))

        threads = [threading.Thread(target=receive) for _ in range(CROWD)]
        for thread in threads:
            thread.start()
        until(lambda: [len(one) for one in face._shared.waiters.values()] == [CROWD])
        looks = store.looks
        assert looks < CROWD
        queue.send("a")
        until(lambda: got)
        assert sum(not thread.is_alive() for thread in threads) <= 1
        queue.send_many(turnabout.message(f"{number}") for number in range(CROWD - 1))
        for thread in threads:
            thread.join(60)
        assert len(got) == CROWD
        assert not face._shared.waiters
        assert store.looks - looks < CROWD


def test_a_close_ends_all_waits(tmp_path: Path) -> None:
    async def close() -> list[Any]:
        face = turnabout.aio.connect(url_in(tmp_path))
        queue = face.queue("q")
        await queue.create()
        tasks = [asyncio.ensure_future(queue.receive(wait_seconds=20)) for _ in range(CROWD)]
        await asyncio.sleep(0.3)
        await face.close()
        return await asyncio.wait_for(asyncio.gather(*tasks), 15)

    answers = asyncio.run(close())
    assert [len(batch) for batch in answers] == [0] * CROWD


class Planted:
    """A source that always has something; the group must hand it out to those who asked."""

    is_closed = False

    def __init__(self, *messages: Any) -> None:
        self.messages = list(messages)
        self.given_back: list[Any] = []

    async def lease(self, most: int) -> Any:
        # More than was asked for, as if members had left meanwhile.
        taken, self.messages = tuple(self.messages), []
        return taken, None

    async def give_back(self, deliveries: Any) -> None:
        self.given_back += deliveries

    async def signal(self) -> int:
        return 1

    async def wait(self, seen: int, seconds: float) -> None:
        await asyncio.sleep(seconds)


def test_what_is_left_over_is_given_back() -> None:
    source: Any = Planted("a", "b", "c")
    answer = asyncio.run(
        ReceiveGroup(source).wait(2, time.monotonic() + 5, was_empty=False, in_front=False)
    )
    assert answer == (("a", "b"), None)
    assert source.given_back == ["c"]


def test_a_close_during_a_look_is_no_error() -> None:
    """`Calls that wait return`, whatever their look met in a store that was being closed."""

    class Closing(Planted):
        async def lease(self, most: int) -> Any:
            self.is_closed = True
            raise turnabout.UsageError("this connection was closed")

    source: Any = Closing()
    waiting = ReceiveGroup(source).wait(1, time.monotonic() + 5, was_empty=False, in_front=False)
    assert asyncio.run(waiting) == ((), None)

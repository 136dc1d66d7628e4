"""Many who wait over one connection, in threads and in tasks; and a close under a wait."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import turnabout
import turnabout.aio
from turnabout.words.verbs import Endings, Verb

pytestmark = [pytest.mark.real_time]


class Counting:
    """A store that counts the looks."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.looks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def run(self, verb: Verb[Any]) -> Any:
        self.looks += isinstance(verb, Endings)
        return self._store.run(verb)


def work_off(url: str, count: int) -> None:
    with turnabout.connect(url) as mq:
        for message in mq.queue("q").consume(wait_seconds=5):
            message.ack(result=message.json())
            count -= 1
            if not count:
                return


def test_a_hundred_threads_wait_with_few_looks(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    with turnabout.connect(url) as opened:
        store = Counting(opened.store)
        queue = turnabout.Turnabout(store).queue("q")
        ids = queue.send_many(turnabout.message(n) for n in range(100)).ids
        answers: dict[int, Any] = {}

        def wait(one: int) -> None:
            (ending,) = queue.wait([one], timeout_seconds=20)
            answers[one] = ending.result.json()

        threads = [threading.Thread(target=wait, args=(one,)) for one in ids]
        for thread in threads:
            thread.start()
        worker = threading.Thread(target=work_off, args=(url, 100))
        worker.start()
        for thread in [*threads, worker]:
            thread.join(30)
    assert [answers[one] for one in ids] == list(range(100))
    assert store.looks < 300  # each for itself they would be thousands


def test_a_hundred_tasks_send_and_wait(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.db"

    async def ask() -> tuple[list[Any], int]:
        async with turnabout.aio.connect(url) as opened:
            store = Counting(opened.store)
            queue = turnabout.aio.Turnabout(store).queue("q")
            await queue.create()
            worker = threading.Thread(target=work_off, args=(url, 100))
            worker.start()
            calls = [queue.send_and_wait(n, timeout_seconds=20) for n in range(100)]
            endings = await asyncio.gather(*calls)
            await asyncio.to_thread(worker.join)
            return [ending.result.json() for ending in endings], store.looks

    answers, looks = asyncio.run(ask())
    assert answers == list(range(100))
    assert looks < 300


class Away(Counting):
    """A store whose database goes away, for so many looks, once a message was sent."""

    def __init__(self, store: Any, looks: int) -> None:
        super().__init__(store)
        self.left = looks

    def run(self, verb: Verb[Any]) -> Any:
        if isinstance(verb, Endings) and self.left:
            self.left -= 1
            raise turnabout.Disconnected("away")
        return super().run(verb)


def test_an_outage_is_waited_out() -> None:
    with turnabout.connect("sqlite://") as opened:
        queue = turnabout.Turnabout(Away(opened.store, 2)).queue("q")
        one = queue.send("x").id
        opened.queue("q").receive()[0].ack(result="r")
        (ending,) = queue.wait([one], timeout_seconds=10)
        assert ending is not None
        assert ending.outcome == "done"


def test_an_outage_until_the_timeout_is_told_and_hides_no_send() -> None:
    with turnabout.connect("sqlite://") as opened:
        queue = turnabout.Turnabout(Away(opened.store, 10**6)).queue("q")
        outcome = queue.send_and_wait("x", timeout_seconds=0.2)
        assert isinstance(outcome, turnabout.Sent)
        with pytest.raises(turnabout.Disconnected):
            queue.wait(outcome.ids, timeout_seconds=0.2)
        with pytest.raises(turnabout.UsageError):
            queue.send_and_wait("y", timeout_seconds=-1)
        assert opened.queue("q").stats().sent == 1


def test_closing_ends_the_waits(tmp_path: Path) -> None:
    mq = turnabout.connect(f"sqlite:///{tmp_path}/app.db")
    queue = mq.queue("q")
    queue.create(events="all")
    one = queue.send("x").id
    ended: list[Any] = []

    def listen() -> None:
        try:
            ended.append(list(queue.events()))
        except turnabout.UsageError:  # it was closed between a wait and a look
            ended.append([])

    def wait() -> None:
        try:
            ended.append(queue.wait([one], timeout_seconds=30))
        except turnabout.UsageError:
            ended.append((None,))

    threads = [threading.Thread(target=listen), threading.Thread(target=wait)]
    for thread in threads:
        thread.start()
    threading.Event().wait(0.2)
    mq.close()
    for thread in threads:
        thread.join(60)
    assert sorted(map(len, ended)) == [0, 1]


def test_cancelling_a_task_leaves_the_other_waits_alone(tmp_path: Path) -> None:
    async def ask() -> Any:
        async with turnabout.aio.connect(f"sqlite:///{tmp_path}/app.db") as mq:
            queue = mq.queue("q")
            one = (await queue.send("x")).id
            waits = [asyncio.create_task(queue.wait([one], timeout_seconds=20)) for _ in range(20)]
            await asyncio.sleep(0.1)
            for task in waits[::2]:
                task.cancel()
            (message,) = await queue.receive()
            await message.ack(result="r")
            return await asyncio.gather(*waits, return_exceptions=True)

    answers = asyncio.run(ask())
    assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[::2])
    assert [answer[0].result.text() for answer in answers[1::2]] == ["r"] * 10

"""`consume`: a loop that acks each message when it asks for the next."""

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import turnabout
import turnabout.aio
from tests.conformance.steps import counts, sent, texts
from tests.support.doors import Clock
from turnabout import message
from turnabout.store import AsyncForwardingStore, ForwardingStore
from turnabout.words.errors import Uncertain
from turnabout.words.verbs import Ack, Receive, Verb


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Counted(ForwardingStore):
    """A store that keeps the verbs it was asked for, and loses an answer when a test says so."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.verbs: list[Verb[Any]] = []
        self.lose = 0

    def run(self, verb: Verb[Any]) -> Any:
        self.verbs.append(verb)
        answer = super().run(verb)
        if getattr(verb, "acks", ()) and self.lose:
            self.lose -= 1
            raise Uncertain("the answer was lost")
        return answer


@pytest.fixture
def store(clock: Clock) -> Iterator[Counted]:
    with turnabout.connect("sqlite://", clock=clock) as mq:
        yield Counted(mq.store)


@pytest.fixture
def queue(store: Counted) -> Any:
    queue = turnabout.Turnabout(store).queue("q")
    queue.create(backoff_jitter=0)
    return queue


@pytest.mark.parametrize("most", [1, 2, 10])
def test_one_call_for_each_fetch(queue: Any, store: Counted, most: int) -> None:
    queue.send_many([message(str(n)) for n in range(6)])
    store.verbs.clear()
    assert [m.text() for m in queue.consume(most)] == list("012345")
    assert counts(queue).done == 6
    asked = [type(verb) for verb in store.verbs if isinstance(verb, (Receive, Ack))]
    assert asked == [Receive] * (-(-6 // most) + 1)


def test_what_the_body_settles_is_left_alone(queue: Any, caplog: pytest.LogCaptureFixture) -> None:
    ids = sent(queue, "ack", "defer", "fail", "release", "else", "ack")
    seen: list[str] = []
    for m in queue.consume(2):
        seen.append(m.text())
        match m.text():
            case "ack":
                m.ack(result=m.id)
            case "defer":
                m.defer(delay_seconds=60)
            case "fail":
                m.fail("no", retry=False)
            case "release" if seen.count("release") == 1:
                m.release()
    assert (counts(queue).done, counts(queue).scheduled, counts(queue).dead) == (4, 1, 1)
    assert [e.result and e.result.json() for e in queue.endings([ids[0]])] == [ids[0]]
    assert caplog.text == ""


def by_break(queue: Any, most: int) -> None:
    for m in queue.consume(most):
        if m.text() == "b":
            break


def by_return(queue: Any, most: int) -> Any:
    loop = queue.consume(most)
    for m in loop:
        if m.text() == "b":
            return m
    return None


def by_close(queue: Any, most: int) -> None:
    loop = queue.consume(most)
    for m in loop:
        if m.text() == "b":
            loop.close()
    loop.close()


def by_block(queue: Any, most: int) -> None:
    with queue.consume(most) as loop:
        for m in loop:
            if m.text() == "b":
                break


@pytest.mark.parametrize("leave", [by_break, by_return, by_close, by_block])
@pytest.mark.parametrize("most", [1, 4])
def test_who_leaves_gives_back_what_is_held(
    queue: Any, leave: Callable[[Any, int], Any], most: int
) -> None:
    sent(queue, *"abcde")
    leave(queue, most)
    stats = counts(queue)
    assert (stats.done, stats.leased, stats.ready) == (1, 0, 4)
    again = queue.receive(10)
    assert sorted(texts(again)) == list("bcde")
    assert {m.failures + m.crashes for m in again} == {0}


def raises(queue: Any, most: int) -> None:
    try:
        raise KeyError("an old one")  # which is not what leaves the loop
    except KeyError as error:
        old = error
    for m in queue.consume(most):
        if m.text() == "b":
            raise ValueError("boom") from old


def raises_in_a_block(queue: Any, most: int) -> None:
    with queue.consume(most) as loop:
        for m in loop:
            if m.text() == "b":
                raise ValueError("boom")


@pytest.mark.parametrize("body", [raises, raises_in_a_block])
@pytest.mark.parametrize("most", [1, 4])
def test_an_exception_fails_the_message_with_its_text(
    queue: Any, body: Callable[[Any, int], None], most: int
) -> None:
    sent(queue, *"abcde")
    with pytest.raises(ValueError, match="boom"):
        body(queue, most)
    stats = counts(queue)
    assert (stats.done, stats.leased, stats.ready, stats.scheduled) == (1, 0, 3, 1)
    (failed,) = queue.peek(state="scheduled")
    assert (failed.payload, failed.failures) == (b"b", 1)
    assert "boom" in failed.error  # before 3.12 in the line of code that raised it
    assert "an old one" not in failed.error or sys.version_info >= (3, 12)


def test_ctrl_c_is_not_the_message_s_fault(queue: Any) -> None:
    sent(queue, "a")
    loop = queue.consume()
    next(iter(loop))
    loop.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    (again,) = queue.receive()
    assert again.failures == 0


def test_a_lost_answer_is_asked_for_again(
    queue: Any, store: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    sent(queue, "a", "b")
    store.lose = 1
    assert next(iter(loop := queue.consume())).text() == "a"
    # Its ack happened, and so did a receive, whose message comes back when its lease runs out.
    assert list(loop) == []
    assert (counts(queue).done, counts(queue).leased) == (1, 1)
    assert caplog.text == ""


def test_a_lost_lease_is_told(queue: Any, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    sent(queue, "a")
    with caplog.at_level(logging.WARNING):
        for m in queue.consume(lease_seconds=1):
            if m.attempt == 1:
                clock.advance(2)
                (taken,) = queue.receive(lease_seconds=60)
    assert f"too late for message {m.receipt} of q: its lease was lost" in caplog.text
    assert taken.ack() == turnabout.Acked()


def test_it_waits_and_then_ends(queue: Any) -> None:
    sent(queue, "a")
    assert texts(queue.consume(wait_seconds=0.05)) == ["a"]
    assert counts(queue).done == 1


def test_marked_as_settled_it_is_not_acked(queue: Any) -> None:
    sent(queue, "a")
    for m in queue.consume():
        m.mark_settled()
    assert counts(queue).leased == 1


class Slow(AsyncForwardingStore):
    """A store that takes its time, so that a loop's end is still under way at `close`."""

    async def run(self, verb: Verb[Any]) -> Any:
        await asyncio.sleep(0.01)
        return await super().run(verb)


@pytest.mark.parametrize("how", ["break", "raise"])
def test_close_waits_for_loops_that_were_left(tmp_path: Any, how: str) -> None:
    url = f"sqlite:///{tmp_path}/q.db"

    async def main() -> None:
        async with turnabout.aio.connect(url) as opened:
            mq = turnabout.aio.Turnabout(Slow(opened.store))
            queue = mq.queue("q")
            await queue.send("a")
            try:
                async for _ in queue.consume():
                    if how == "break":
                        break
                    raise ValueError("boom")
            except ValueError:
                pass
            await mq.close()

    asyncio.run(main())
    with turnabout.connect(url) as mq:
        stats = mq.queue("q").stats()
        assert (stats.leased, stats.ready + stats.scheduled) == (0, 1)
        assert bool(stats.scheduled) == (how == "raise")

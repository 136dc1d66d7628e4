"""`wait` and `send_and_wait`: until messages have ended, at every door. The clock is the wall's."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.steps import sent
from tests.support.each import each
from turnabout import Acked, ChannelFull, Ending, Policy, QueueFull, Sent, UsageError

pytestmark = [pytest.mark.real_time]


def meanwhile(work: Callable[[], object]) -> threading.Thread:
    """The work in a thread, a moment after this."""

    def later() -> None:
        time.sleep(0.1)
        work()

    thread = threading.Thread(target=later)
    thread.start()
    return thread


def elsewhere(door: Any, name: str, act: Callable[[Any], object]) -> threading.Thread:
    """Do that with the queue over another connection, a moment after this."""

    def work() -> None:
        with door.open(real_time=True) as mq:
            act(mq.queue(name))

    return meanwhile(work)


def dead(queue: Any) -> None:
    (message,) = queue.receive(1)
    message.fail("no use", retry=False)


def done(queue: Any) -> None:
    (message,) = queue.receive(1)
    assert message.ack(result={"pages": 12}) == Acked()


def test_what_has_ended_is_answered_at_once(door: Any) -> None:
    with door.open(real_time=True) as mq:
        queue = mq.queue(door.name_of_a_queue())
        first, second, third = sent(queue, "1", "2", "3")
        done(queue)
        assert queue.cancel([third])
        began = time.monotonic()
        endings = queue.wait([third, first, third], timeout_seconds=20)
        assert [ending.outcome for ending in endings] == ["cancelled", "done", "cancelled"]
        assert endings[1].result.json() == {"pages": 12}
        assert queue.wait([]) == ()
        assert time.monotonic() - began < 15
        assert queue.wait([first, second], timeout_seconds=0) == (endings[1], None)


@pytest.mark.needs("sharing")
@pytest.mark.parametrize(
    ("act", "outcome"),
    [
        (done, "done"),
        (dead, "dead"),
        (lambda queue: queue.cancel([queue.peek()[0].id]), "cancelled"),
        (lambda queue: queue.purge(), "cancelled"),
        (lambda queue: queue.channel("").delete(), "cancelled"),
        (lambda queue: (time.sleep(0.4), queue.receive(1)), "expired"),
    ],
    ids=["ack", "fail", "cancel", "purge", "channel", "receive"],
)
def test_every_way_to_end_ends_the_wait(door: Any, act: Any, outcome: str) -> None:
    name = door.name_of_a_queue()
    with door.open(real_time=True) as mq:
        queue = mq.queue(name)
        ttl = 0.3 if outcome == "expired" else None
        ids = sent(queue, "x", ttl_seconds=ttl)
        began = time.monotonic()
        actor = elsewhere(door, name, act)
        (ending,) = queue.wait(ids, timeout_seconds=20)
        took = time.monotonic() - began
        actor.join()
    assert ending.outcome == outcome
    assert 0.1 <= took < 15


def test_at_the_timeout_there_is_what_there_is(door: Any) -> None:
    with door.open(real_time=True) as mq:
        queue = mq.queue(door.name_of_a_queue())
        first, second = sent(queue, "1", "2")
        done(queue)
        began = time.monotonic()
        ended, unfinished = queue.wait([first, second], timeout_seconds=0.4)
        assert 0.4 <= time.monotonic() - began < 15
        assert (ended.outcome, unfinished) == ("done", None)


@pytest.mark.needs("sharing")
def test_send_and_wait_brings_the_result(door: Any) -> None:
    name = door.name_of_a_queue()
    with door.open(real_time=True) as mq:
        queue = mq.queue(name)
        queue.create()

        def answer(other: Any) -> None:
            (message,) = other.receive(1, wait_seconds=10)
            message.ack(result=message.json() * 2)

        worker = elsewhere(door, name, answer)
        ending = queue.send_and_wait(21, timeout_seconds=20, channel="c")
        worker.join()
    assert isinstance(ending, Ending)
    assert (ending.outcome, ending.result.json()) == ("done", 42)


def test_send_and_wait_without_an_end_or_without_room(door: Any) -> None:
    with door.open(real_time=True) as mq:
        queue = mq.queue(door.name_of_a_queue())
        queue.create(max_messages=2)
        queue.channel("c").set_policy(Policy(max_size=1))
        outcome = queue.send_and_wait("x", timeout_seconds=0.05, channel="c")
        assert isinstance(outcome, Sent)
        assert queue.wait(outcome.ids, timeout_seconds=0) == (None,)
        assert isinstance(queue.send_and_wait("y", channel="c"), ChannelFull)
        sent(queue, "z")
        assert isinstance(queue.send_and_wait("y"), QueueFull)


@each(
    ("ids", "timeout"), [([0], 1), (["1"], 1), ("12", 1), ([1], -1), ([1], 4000), ([1] * 10_001, 1)]
)
def test_wrong_arguments_are_refused(queue: Any, ids: Any, timeout: float) -> None:
    with pytest.raises(UsageError):
        queue.wait(ids, timeout_seconds=timeout)

"""wait and send_and_wait: told of every ending, from anywhere, soon, and at the timeout."""

import threading
import time
from contextlib import contextmanager

import pytest

from tests.conformance.steps import acked, counts, ending, maintained, one, sent
from tests.support.each import each
from turnabout import ChannelFull, Policy, QueueFull, QueueNotFound, Sent, UsageError, message
from turnabout.waiting.pacing import Rounds
from turnabout.words.records import Ending

SOON = 15.0
"""Far above what is promised, far below the timeouts."""


@contextmanager
def meanwhile(door, name, action, *, after=0.1):
    """Do something with that queue, through another connection, while the block runs."""
    errors = []

    def run():
        try:
            time.sleep(after)
            with door.open(real_time=True) as mq:
                action(mq.queue(name))
        except Exception as error:  # noqa: BLE001 (told to the test's own thread)
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join(30)
    assert not errors, errors


@pytest.fixture
def live(door):
    """A queue behind a connection on the wall's clock."""
    with door.open(real_time=True) as mq:
        queue = mq.queue(door.name_of_a_queue())
        queue.create(max_attempts=1)
        yield queue


def ack_one(queue, value="fine"):
    (held,) = queue.receive(wait_seconds=10)
    acked(queue, held, value)


# --- what ends by itself ---


@pytest.mark.driving
def test_maintenance_ends_what_has_died_of_crashes(door, clock):
    queue = door.fresh(max_attempts=1)
    (lost,) = sent(queue, "x")
    queue.receive(lease_seconds=10)
    sent(queue, "due", delay_seconds=10)
    clock.advance(10)
    maintained(queue)
    assert ending(queue, lost).outcome == "dead"
    left = counts(queue)
    assert (left.leased, left.scheduled, left.ready) == (0, 0, 1)


@pytest.mark.real_time
def test_a_waiter_hears_of_a_death_though_nobody_receives(live, monkeypatch):
    monkeypatch.setattr(Rounds, "must_maintain", lambda *_: True)  # as a second later
    (lost,) = sent(live, "x")
    live.receive(lease_seconds=0.1)
    (told,) = live.wait([lost], timeout_seconds=30)
    assert told.outcome == "dead"


# --- what has ended already ---


@pytest.mark.parametrize("timeout", [0, 30])
def test_what_has_ended_is_told_at_once(queue, clock, timeout):
    queue.update(max_attempts=1)
    done, dead, cancelled = sent(queue, *"abc")
    first, second, _ = queue.receive(3)
    acked(queue, first, {"n": 1})
    second.fail("no")
    queue.purge(state="leased")
    expired = queue.send_many([message("e", ttl_seconds=1)]).id
    clock.advance(1)
    maintained(queue)
    began = time.monotonic()
    ends = queue.wait([expired, done, dead, cancelled, done], timeout_seconds=timeout)
    assert time.monotonic() - began < SOON
    outcomes = ["expired", "done", "dead", "cancelled", "done"]
    assert [end.outcome for end in ends] == outcomes
    assert ends[1].result.json() == {"n": 1}
    assert ends[2].error == "no"


def test_at_the_timeout_what_there_is(queue):
    done, ready, leased = sent(queue, *"abc")
    first, _ = queue.receive(2)
    acked(queue, first)
    for timeout in (0, 0.2):
        began = time.monotonic()
        ends = queue.wait([ready, done, leased, 2**62], timeout_seconds=timeout)
        assert timeout <= time.monotonic() - began < timeout + SOON
        assert [end and end.outcome for end in ends] == [None, "done", None, None]


def test_nobody_to_wait_for(queue):
    assert queue.wait([], timeout_seconds=30) == ()


def test_without_history_the_ending_is_unknown(door):
    queue = door.fresh(history_seconds=0)
    (number,) = sent(queue, "a")
    one(queue).ack()
    assert queue.wait([number], timeout_seconds=30) == (Ending(number, "unknown"),)


@each("timeout", [-1, 3_601, "5", float("nan")])
def test_wrong_timeouts_are_refused(queue, timeout):
    with pytest.raises(UsageError):
        queue.wait([1], timeout_seconds=timeout)


@each("ids", [5, "12", [0], [-1], [2**63], ["1"], [True], [1] * 10_001])
def test_wrong_ids_are_refused(queue, ids):
    for verb in (queue.wait, queue.endings, queue.cancel, queue.retry):
        with pytest.raises(UsageError):
            verb(ids)


@pytest.mark.driving
def test_a_missing_queue_is_said(door):
    with pytest.raises(QueueNotFound):
        door.mq.queue("nosuch").wait([1], timeout_seconds=1)


def test_send_and_wait_that_is_not_answered_tells_the_id(queue):
    outcome = queue.send_and_wait("a", timeout_seconds=0)
    assert isinstance(outcome, Sent)
    assert one(queue).id == outcome.id


def test_send_and_wait_that_is_refused_says_so(door):
    queue = door.fresh(max_messages=2)
    queue.channel("c").set_policy(Policy(max_size=1))
    sent(queue, "a", channel="c")
    outcome = queue.send_and_wait("b", channel="c", timeout_seconds=30)
    assert outcome == ChannelFull("c", 1, 1)
    sent(queue, "b")
    assert isinstance(queue.send_and_wait("c", timeout_seconds=30), QueueFull)


# --- what ends while somebody waits ---


ENDS = {
    "done": lambda queue, _: ack_one(queue),
    "dead": lambda queue, _: queue.receive(wait_seconds=10)[0].fail("no"),
    "cancelled": lambda queue, number: queue.cancel((number,)),
    "cancelled, by a purge": lambda queue, _: queue.purge(),
    "cancelled, with its channel": lambda queue, _: queue.channel("").delete(),
    "expired": lambda queue, _: [maintained(queue), time.sleep(0.2), maintained(queue)],
}


@pytest.mark.real_time
@pytest.mark.needs("sharing")
@pytest.mark.share(14)
@pytest.mark.parametrize("how", ENDS)
def test_an_ending_through_another_connection_ends_the_wait(door, live, how):
    ttl = 0.2 if how == "expired" else None
    number = live.send_many([message("a", ttl_seconds=ttl)]).id
    with meanwhile(door, live.name, lambda queue: ENDS[how](queue, number)):
        began = time.monotonic()
        (end,) = live.wait([number], timeout_seconds=30)
        took = time.monotonic() - began
    assert end is not None, "not told before the timeout"
    assert end.outcome == how.partition(",")[0]
    assert took < SOON


@pytest.mark.real_time
@pytest.mark.needs("sharing")
def test_a_wait_for_many_ends_with_the_last(door, live):
    numbers = sent(live, *"abc")

    def end_them(queue):
        for held in queue.receive(3):
            time.sleep(0.15)
            acked(queue, held, held.text())

    began = time.monotonic()
    with meanwhile(door, live.name, end_them):
        ends = live.wait(numbers, timeout_seconds=30)
        assert 0.45 <= time.monotonic() - began < SOON
    assert [end.result.text() for end in ends] == list("abc")


@pytest.mark.real_time
@pytest.mark.needs("sharing")
def test_send_and_wait_has_the_result(door, live):
    with meanwhile(door, live.name, lambda queue: ack_one(queue, {"sum": 3}), after=0):
        began = time.monotonic()
        end = live.send_and_wait([1, 2], timeout_seconds=30)
        assert time.monotonic() - began < SOON
    assert isinstance(end, Ending)
    assert end.result.json() == {"sum": 3}


@pytest.mark.real_time
@pytest.mark.needs("sharing")
def test_a_message_that_comes_back_is_waited_for_on(door, live):
    (number,) = sent(live, "a")

    def defer_and_ack(queue):
        queue.receive(wait_seconds=10)[0].defer(delay_seconds=0.2)
        ack_one(queue, "second time")

    with meanwhile(door, live.name, defer_and_ack, after=0.1):
        (end,) = live.wait([number], timeout_seconds=30)
    assert (end.outcome, end.attempt) == ("done", 2)


@pytest.mark.real_time
@pytest.mark.needs("sharing")
def test_each_of_many_waiters_is_told_its_own(door, live):
    """A dozen connections wait while one worker answers."""
    numbers = sent(live, *map(str, range(12)))
    told = {}

    def wait_for(number):
        with door.open(real_time=True) as mq:
            told[number] = mq.queue(live.name).wait([number], timeout_seconds=30)[0]

    def answer(queue):
        for held in queue.receive(12):
            acked(queue, held, held.text())

    threads = [threading.Thread(target=wait_for, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    with meanwhile(door, live.name, answer):
        for thread in threads:
            thread.join(40)
    assert {n: end and end.result.text() for n, end in told.items()} == {
        number: str(place) for place, number in enumerate(numbers)
    }

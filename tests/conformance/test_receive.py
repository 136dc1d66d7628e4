"""receive: who gets what, when and for how long. Limits of channels are in `test_limits`."""

import math

import pytest

from tests.conformance.steps import counts, is_empty, one, sent, taken, texts
from tests.support.each import each
from turnabout import LeaseLost, Purged, QueueNotFound, UsageError, message


def test_nothing_to_receive_is_an_empty_answer(queue):
    batch = queue.receive()
    assert len(batch) == 0
    assert not batch
    assert batch.retry_after_seconds is None


@pytest.mark.driving
def test_a_received_message_is_nobody_else_s(queue):
    sent(queue, "a")
    assert texts(queue.receive(10)) == ["a"]
    assert is_empty(queue)
    assert counts(queue).leased == 1


def test_at_most_as_many_as_asked_for(queue):
    sent(queue, *"abcde")
    assert texts(queue.receive(1)) == ["a"]
    assert texts(queue.receive(3)) == ["b", "c", "d"]
    assert texts(queue.receive(3)) == ["e"]


def test_the_limit_of_one_call(queue):
    queue.send_many([message(str(n), channel=str(n % 7)) for n in range(1_001)])
    assert len(queue.receive(1_000)) == 1_000
    assert len(queue.receive(1_000)) == 1


@each("most", [0, -1, 1_001, True, 1.0, "1", None])
def test_a_wrong_number_of_messages_is_refused(queue, most):
    with pytest.raises(UsageError):
        queue.receive(most)


@each("seconds", [0, -1, 0.0001, 7 * 86_400 + 1, math.nan, math.inf, True, "5"])
def test_a_wrong_lease_is_refused(queue, seconds):
    with pytest.raises(UsageError):
        queue.receive(lease_seconds=seconds)


@each("seconds", [-1, 3601, math.nan, math.inf, True, "5", None])
def test_a_wrong_wait_is_refused(queue, seconds):
    with pytest.raises(UsageError):
        queue.receive(wait_seconds=seconds)


@each("shard", [(1, 1), (-1, 2), (0, 0), (0, 1025), (True, 2), (0.0, 1)])
def test_a_wrong_shard_is_refused(queue, shard):
    with pytest.raises(UsageError):
        queue.receive(shard=shard)


@each("shard", [(1,), (0, 1, 2), 5])
def test_what_is_no_shard_is_refused(queue, shard):
    with pytest.raises((UsageError, TypeError)):
        queue.receive(shard=shard)


def test_a_missing_queue_is_said(door):
    with pytest.raises(QueueNotFound, match="nosuch"):
        door.mq.queue("nosuch").receive()


# --- order inside a channel (P9) ---


@pytest.mark.driving
def test_inside_a_channel_priority_then_order_of_sending(queue):
    for name, priority in [("c", 0), ("e", 5), ("a", -3), ("d", 0), ("f", 5), ("b", -3)]:
        queue.send(name, priority=priority)
    assert texts(queue.receive(2)) == ["a", "b"]
    assert texts(queue.receive(10)) == ["c", "d", "e", "f"]


def test_a_message_that_comes_back_stands_where_it_stood(queue):
    sent(queue, "a", "b", "c")
    first = one_of(queue)
    first.release()
    assert texts(queue.receive(10)) == ["a", "b", "c"]


def one_of(queue):
    (message,) = queue.receive(1)
    return message


def test_priorities_at_the_ends_of_their_range(queue):
    sent(queue, "last", priority=32_767)
    sent(queue, "first", priority=-32_768)
    sent(queue, "middle")
    assert texts(queue.receive(3)) == ["first", "middle", "last"]


# --- leases ---


@pytest.mark.driving
def test_a_lease_runs_out_at_its_millisecond_and_is_charged(queue, clock):
    first = taken(queue, "x", lease_seconds=10)
    assert first.lease_until == clock.now + 10_000
    clock.advance(ms=9_999)
    assert is_empty(queue)
    clock.advance(ms=1)
    second = one(queue)
    assert (second.id, second.attempt) == (first.id, 2)
    assert (second.crashes, second.failures) == (1, 0)
    assert counts(queue).leased == 1


def test_the_queue_s_lease_holds_unless_one_is_named(door, clock):
    queue = door.fresh(lease_seconds=5)
    sent(queue, "a", "b")
    (a,) = queue.receive()
    (b,) = queue.receive(lease_seconds=0.001)
    assert a.lease_until == clock.now + 5_000
    assert b.lease_until == clock.now + 1


def test_the_longest_lease(queue, clock):
    assert taken(queue, "x", lease_seconds=7 * 86_400).lease_until == clock.now + 7 * 86_400_000


def test_many_leases_that_run_out_at_once_all_come_back(queue, clock):
    queue.send_many([message(str(n), channel=str(n % 5)) for n in range(450)])
    assert len(queue.receive(1_000, lease_seconds=1)) == 450
    clock.advance(1)
    again = []
    while batch := queue.receive(10):
        again.extend(batch)
    assert len({m.id for m in again}) == 450
    assert {m.crashes for m in again} == {1}


def test_many_messages_that_are_due_at_once_all_come(queue, clock):
    queue.send_many([message(str(n), delay_seconds=1) for n in range(450)])
    assert is_empty(queue)
    clock.advance(1)
    got = []
    while batch := queue.receive(10):
        got.extend(batch)
    assert texts(got) == [str(n) for n in range(450)]


# --- when to ask again ---


@pytest.mark.driving
def test_when_to_ask_again_is_exact(queue, clock):
    sent(queue, "x", delay_seconds=7)
    assert queue.receive().retry_after_seconds == 7
    clock.advance(ms=6_001)
    assert queue.receive().retry_after_seconds == 0.999
    clock.advance(ms=999)
    one(queue, lease_seconds=4)
    assert queue.receive().retry_after_seconds == 4
    clock.advance(3)
    assert queue.receive().retry_after_seconds == 1


def test_when_to_ask_again_is_the_earliest_of_all(queue):
    sent(queue, "x", delay_seconds=50)
    sent(queue, "y", delay_seconds=20, channel="b")
    assert queue.receive().retry_after_seconds == 20
    sent(queue, "z", channel="c")
    (z,) = queue.receive(lease_seconds=10)
    assert queue.receive().retry_after_seconds == 10
    z.extend(lease_seconds=40)
    assert queue.receive().retry_after_seconds == 20
    z.ack()
    assert queue.receive().retry_after_seconds == 20


def test_another_queue_s_timers_are_not_ours(door, queue):
    other = door.fresh()
    sent(other, "x", delay_seconds=3)
    assert queue.receive().retry_after_seconds is None


# --- pauses ---


def test_a_paused_queue_hands_out_nothing_and_takes_everything(queue):
    sent(queue, "a")
    (a,) = queue.receive()
    queue.pause()
    assert queue.stats().paused
    sent(queue, "b")
    assert is_empty(queue)
    a.ack()
    queue.resume()
    assert not queue.stats().paused
    assert texts(queue.receive(10)) == ["b"]


@pytest.mark.driving
def test_a_paused_channel_hands_out_nothing(queue):
    sent(queue, "a1", "a2", channel="a")
    sent(queue, "b", channel="b")
    queue.channel("a").pause()
    assert queue.channel("a").policy().paused
    sent(queue, "a3", channel="a")
    assert texts(queue.receive(10)) == ["b"]
    assert is_empty(queue)
    queue.channel("a").resume()
    assert texts(queue.receive(10)) == ["a1", "a2", "a3"]


def test_a_lease_runs_out_in_a_paused_queue_too(queue, clock):
    sent(queue, "a")
    (a,) = queue.receive(lease_seconds=1)
    queue.pause()
    clock.advance(1)
    assert is_empty(queue)
    queue.resume()
    (again,) = queue.receive()
    assert again.attempt == 2
    assert a.ack() == LeaseLost("leased")


@pytest.mark.parametrize("named", [{}, {"channel": "a"}])
def test_a_purge_ends_leases_that_ran_out(queue, clock, named):
    """What a worker had that has died is nobody's, though nobody has looked since."""
    sent(queue, "left behind", "held", channel="a")
    queue.receive(1, lease_seconds=1)
    queue.receive(1, lease_seconds=100)
    clock.advance(2)
    assert queue.purge(**named) == Purged(1)
    assert (counts(queue).leased, counts(queue).ready, counts(queue).cancelled) == (1, 0, 1)

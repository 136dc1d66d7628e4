"""`queue_max_concurrency` and `queue_rate`: limits over a whole queue (P10, P11), beside those of
its channels, which still take turns under them (P12).
"""

import pytest

from tests.conformance.steps import counts, is_empty, one
from tests.support.each import each
from turnabout import Policy, Rate, message


def filled(door, channels="abcdef", each_=3, **settings):
    queue = door.fresh(**settings)
    queue.send_many([message(c, channel=c) for _ in range(each_) for c in channels])
    return queue


@pytest.mark.driving
@each("most", [1, 2, 5])
def test_never_more_leases_than_the_queue_has_slots(door, most):
    queue = filled(door, queue_max_concurrency=most)
    assert len(queue.receive(10)) == most
    batch = queue.receive(10)
    assert not batch
    assert batch.retry_after_seconds == 30  # when the leases run out
    assert counts(queue).leased == most
    blocked = {c.blocked for c in queue.channels() if c.ready}
    assert blocked == {"queue_concurrency"}


@each("end", ["ack", "defer", "fail", "release", "refuse", "cancel", "purge", "run out"])
def test_whatever_ends_a_lease_frees_its_slot_and_no_other(door, clock, end):
    queue = filled(door, queue_max_concurrency=2, backoff_seconds=60, backoff_jitter=0)
    first, second = queue.receive(10, lease_seconds=5)
    match end:
        case "defer":
            first.defer(delay_seconds=60)
        case "refuse":
            first.fail(retry=False)
        case "cancel":
            queue.cancel([first.id])
            first.release()
        case "purge":
            second.extend(lease_seconds=50)
            queue.purge(channel=first.channel, state="leased")
        case "run out":
            second.extend(lease_seconds=50)
            clock.advance(5)
        case _:
            getattr(first, end)()
    assert len(queue.receive(10)) == 1
    assert is_empty(queue)


def test_a_batch_that_is_acked_at_once_frees_its_slots(door):
    queue = filled(door, queue_max_concurrency=4)
    for _ in range(4):
        batch = queue.receive(10)
        assert len(batch) == 4
        queue.ack([m.receipt for m in batch])
    assert len(queue.receive(10)) == 2


def test_a_limit_on_a_queue_in_use_counts_what_is_leased(door):
    queue = filled(door)
    first, second, third = queue.receive(3)
    queue.update(queue_max_concurrency=3)
    assert is_empty(queue)
    first.ack()
    assert len(queue.receive(10)) == 1
    queue.update(queue_max_concurrency=2)
    second.ack()
    assert is_empty(queue)
    third.ack()
    assert len(queue.receive(10)) == 1
    queue.update(queue_max_concurrency=None)
    assert len(queue.receive(5)) == 5
    queue.update(queue_max_concurrency=8)
    assert len(queue.receive(10)) == 1


def test_channels_take_turns_and_keep_their_own_limits(door):
    queue = filled(door, "abc", 12, queue_max_concurrency=2)
    queue.channel("b").set_policy(Policy(max_concurrency=1))
    queue.channel("c").set_policy(Policy(weight=2))
    got = []
    for _ in range(12):
        batch = queue.receive(10)
        assert len(batch) == 2
        assert [m.channel for m in batch].count("b") <= 1
        got += [m.channel for m in batch]
        queue.ack([m.receipt for m in batch])
    assert [got.count(c) for c in "abc"] == [6, 6, 12]


def test_the_rate_of_a_queue_is_never_exceeded(door, clock):
    queue = filled(door, queue_rate=Rate(2, per_seconds=1, burst=3))
    assert len(queue.receive(10)) == 3
    batch = queue.receive(10)
    assert not batch
    assert batch.retry_after_seconds == 0.5
    assert {c.blocked for c in queue.channels() if c.ready} == {"queue_rate"}
    clock.advance(0.5)
    got = one(queue)
    got.release()  # a redelivery counts
    assert is_empty(queue)
    clock.advance(1)
    assert len(queue.receive(10)) == 2
    queue.update(queue_rate=Rate(2, per_seconds=1, burst=3))  # gains no tokens
    assert is_empty(queue)
    queue.update(queue_rate=Rate(1000))
    assert is_empty(queue)
    clock.advance(ms=1)
    assert len(queue.receive(10)) == 1


def test_settings_come_back_as_they_were_set(door):
    limits = {"queue_max_concurrency": 7, "queue_rate": Rate(3, 2.5, 2), "max_deliveries": 9}
    queue = door.fresh(**limits, policy=Policy(max_concurrency=2, rate=Rate(1)))
    settings = queue.settings()
    assert {name: getattr(settings, name) for name in limits} == limits
    assert settings.policy == Policy(max_concurrency=2, rate=Rate(1))
    queue.update(queue_rate=None)
    assert queue.settings().queue_rate is None
    assert queue.settings().queue_max_concurrency == 7

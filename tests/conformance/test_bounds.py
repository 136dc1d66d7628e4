"""Bounds and removal: max_messages, a pause with its reason, channels and queues that go."""

import pytest

from tests.conformance.steps import (
    counts,
    ending,
    finished,
    grave_of,
    is_empty,
    one,
    one_by_one,
    sent,
    texts,
)
from tests.support.doors import beside
from tests.support.each import each
from turnabout import (
    Acked,
    ChannelFull,
    Dead,
    Deleted,
    LeaseLost,
    Policy,
    QueueNotFound,
    Rate,
    Released,
    Sent,
    UsageError,
    message,
)
from turnabout.words.outcomes import QueueFull


def several(many, channel=""):
    return [message("x", channel=channel) for _ in range(many)]


# --- max_messages ---


@pytest.mark.parametrize("more", [0, 1, 2, 3])
def test_a_send_up_to_the_bound_is_taken_and_one_over_it_refused_whole(door, more):
    queue = door.fresh(max_messages=3)
    sent(queue, "there")
    outcome = queue.send_many(several(more))
    if more <= 2:
        assert isinstance(outcome, Sent)
    else:
        assert outcome == QueueFull(3, 1)
    assert counts(queue).sent == (1 + more if more <= 2 else 1)


@pytest.mark.driving
def test_all_that_is_unfinished_counts_in_every_channel(door, clock):
    queue = door.fresh(max_messages=3)
    sent(queue, "ready", channel="a")
    sent(queue, "leased", channel="b")
    sent(queue, "scheduled", channel="c", delay_seconds=60)
    held = queue.receive(1)
    assert queue.send("x", channel="d") == QueueFull(3, 3)
    held[0].ack()
    sent(queue, "x", channel="d")
    assert queue.send("y") == QueueFull(3, 3)


@pytest.mark.parametrize("end", ["ack", "die", "purge", "expire"])
def test_whatever_ends_makes_room(door, clock, end):
    queue = door.fresh(max_messages=1, max_attempts=1, ttl_seconds=10)
    sent(queue, "a")
    match end:
        case "ack":
            one(queue).ack()
        case "die":
            assert isinstance(one(queue).fail(), Dead)
        case "purge":
            queue.purge()
        case _:
            clock.advance(10)
            queue.receive()
    sent(queue, "b")
    assert isinstance(queue.send("c"), QueueFull)


def test_what_comes_back_is_never_refused(door, clock):
    queue = door.fresh(max_messages=2, lease_seconds=5)
    sent(queue, "a", "b")
    first, second = queue.receive(2)
    first.release()
    second.fail(delay_seconds=0)
    queue.update(max_messages=1)
    assert len(queue.receive(10)) == 2
    clock.advance(5)
    assert len(queue.receive(10)) == 2


def test_a_bound_that_is_lifted_holds_no_more(door):
    queue = door.fresh(max_messages=1)
    sent(queue, "a")
    assert queue.send("b") == QueueFull(1, 1)
    queue.update(max_messages=None)
    sent(queue, "b", "c")


def test_a_full_dead_letter_queue_still_takes_the_dead(door):
    queue = door.fresh(max_attempts=1)
    grave_of(queue).update(max_messages=1)
    sent(queue, "a", "b")
    for held in queue.receive(2):
        assert held.fail() == Dead(grave_of(queue).name)
    assert counts(grave_of(queue)).ready == 2


def test_a_channel_s_bound_and_the_queue_s_both_hold(door):
    queue = door.fresh(max_messages=3)
    queue.channel("a").set_policy(Policy(max_size=1))
    sent(queue, "a", channel="a")
    assert queue.send("a", channel="a") == ChannelFull("a", 1, 1)
    sent(queue, "b", "c", channel="b")
    assert queue.send("d", channel="b") == QueueFull(3, 3)


@each("most", [0, -1, 2**31, True, "3", 1.5])
def test_wrong_bounds_are_refused(queue, most):
    with pytest.raises(UsageError):
        queue.update(max_messages=most)


# --- a pause with its reason ---


def test_a_queue_s_pause_keeps_its_reason(queue):
    sent(queue, "a")
    queue.update(paused=True, pause_reason="the bank is closed: until 9:00")
    assert is_empty(queue)
    stats = counts(queue)
    assert (stats.paused, stats.pause_reason) == (True, "the bank is closed: until 9:00")
    assert queue.settings().pause_reason == "the bank is closed: until 9:00"
    queue.update(paused=False, pause_reason=None)
    assert counts(queue).pause_reason is None
    assert texts(queue.receive()) == ["a"]


@pytest.mark.driving
def test_a_channel_s_pause_keeps_its_reason(queue):
    sent(queue, "a", channel="a")
    policy = Policy(paused=True, pause_reason="their server is down")
    assert queue.channel("a").set_policy(policy) == policy
    assert queue.channel("a").policy() == policy
    assert [p.policy for p in queue.policies()] == [policy]
    assert is_empty(queue)
    changed = queue.channel("a").change_policy(paused=False, pause_reason=None)
    assert changed == Policy()
    assert texts(queue.receive()) == ["a"]


@each("reason", ["x" * 1_025, "a\x00", 5, b"x"])
def test_wrong_reasons_are_refused(queue, reason):
    with pytest.raises(UsageError):
        queue.update(pause_reason=reason)
    with pytest.raises(UsageError):
        Policy(pause_reason=reason)


def test_the_longest_reason_is_kept(queue):
    queue.update(paused=True, pause_reason="ü" * 1_024)
    assert counts(queue).pause_reason == "ü" * 1_024


# --- a channel goes ---


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("limited", [False, True])
def test_a_removed_channel_s_waiting_messages_are_cancelled(door, clock, fifo, limited):
    queue = door.fresh(fifo=fifo)
    if limited:
        queue.channel("a").set_policy(Policy(max_concurrency=1, rate=Rate(100), weight=3))
    numbers = sent(queue, "held", "ready", channel="a")
    numbers += sent(queue, "scheduled", channel="a", delay_seconds=60)
    (held,) = queue.receive()
    sent(queue, "other", channel="b")
    assert queue.channel("a").delete() == Deleted(2)
    assert [ending(queue, n) and ending(queue, n).outcome for n in numbers] == [
        None,
        "cancelled",
        "cancelled",
    ]
    assert queue.policies() == ()
    assert queue.channel("a").policy() == Policy()
    assert texts(one_by_one(queue)) == ["other"]
    assert held.release() == Released()
    assert texts(one_by_one(queue)) == ["held"], "a lease runs on"
    assert counts(queue).cancelled == 2
    assert len(finished(queue, outcome="cancelled")) == 2


def test_a_channel_lives_again_without_its_old_limits(queue):
    queue.channel("a").set_policy(Policy(paused=True, max_size=1))
    sent(queue, "old", channel="a")
    assert queue.channel("a").delete() == Deleted(1)
    sent(queue, "b", "c", channel="a")
    assert texts(queue.receive(10)) == ["b", "c"]


def test_a_default_policy_stays_when_a_channel_goes(door):
    queue = door.fresh(policy=Policy(max_concurrency=1))
    queue.channel("a").set_policy(Policy(max_concurrency=5))
    sent(queue, "x", channel="a")
    queue.channel("a").delete()
    sent(queue, "1", "2", "3", channel="a")
    assert texts([one(queue)]) == ["1"]
    assert is_empty(queue)


@pytest.mark.driving
def test_a_channel_that_was_never_there_is_gone_already(queue):
    assert queue.channel("nobody").delete() == Deleted(0)
    assert queue.channel("").delete() == Deleted(0)
    with pytest.raises(QueueNotFound):
        beside(queue, "nosuch").channel("a").delete()


# --- a queue goes ---


def test_a_deleted_queue_takes_history_and_endings_along(door):
    queue = door.fresh()
    number, _ = sent(queue, "a", "b")
    first, second = queue.receive(2)
    first.ack()
    assert queue.delete() == Deleted(1)
    queue.create()
    assert finished(queue) == []
    assert ending(queue, number).outcome == "unknown"
    assert second.ack() == LeaseLost("gone")
    sent(queue, "new")
    assert one(queue).ack() == Acked()
    assert len(finished(queue)) == 1


@pytest.mark.driving
def test_a_named_dead_letter_queue_in_use_stays(door):
    grave = door.fresh()
    queue = door.fresh(dead_letter=grave.name)
    with pytest.raises(UsageError):
        grave.delete()
    queue.update(dead_letter=None)
    assert grave.delete() == Deleted(0)

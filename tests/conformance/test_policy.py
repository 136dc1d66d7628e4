"""Policies: set, changed, cleared and listed on live channels; what is wrong is refused."""

import pytest

from tests.conformance.steps import sent, texts
from tests.support.each import each
from turnabout import ChannelPolicy, Policy, QueueNotFound, Rate, UsageError
from turnabout.words.policy import NO_POLICY

WHOLE = Policy(
    max_concurrency=3, rate=Rate(7, per_seconds=2.5, burst=4), max_size=9, weight=5, paused=True
)


@pytest.mark.driving
def test_a_policy_is_kept_as_it_was_set(queue):
    channel = queue.channel("a")
    assert channel.policy() == NO_POLICY
    assert channel.set_policy(WHOLE) == WHOLE
    assert channel.policy() == WHOLE
    assert queue.channel("b").policy() == NO_POLICY


def test_setting_replaces_all_of_it(queue):
    channel = queue.channel("a")
    channel.set_policy(WHOLE)
    assert channel.set_policy(Policy(weight=2)) == Policy(weight=2)
    assert channel.policy() == Policy(weight=2)


@pytest.mark.driving
def test_changing_keeps_what_is_not_named(queue):
    channel = queue.channel("a")
    channel.set_policy(WHOLE)
    assert channel.change_policy(weight=1, rate=None) == WHOLE.changed({"weight": 1, "rate": None})
    assert channel.policy().max_concurrency == 3
    assert queue.channel("new").change_policy(max_size=1) == Policy(max_size=1)


def test_changing_nothing_changes_nothing(queue):
    channel = queue.channel("a")
    channel.set_policy(WHOLE)
    assert channel.change_policy() == WHOLE


@pytest.mark.driving
def test_a_cleared_policy_is_gone(queue):
    channel = queue.channel("a")
    channel.set_policy(WHOLE)
    channel.clear_policy()
    assert channel.policy() == NO_POLICY
    assert queue.policies() == ()


def test_clearing_what_is_not_there_is_fine(queue):
    queue.channel("a").clear_policy()
    assert queue.policies() == ()


@pytest.mark.driving
def test_policies_are_listed_by_name(queue):
    for name in ("b", "", "a"):
        queue.channel(name).set_policy(Policy(weight=2))
    queue.channel("z").pause()
    assert queue.policies() == (
        ChannelPolicy("", Policy(weight=2)),
        ChannelPolicy("a", Policy(weight=2)),
        ChannelPolicy("b", Policy(weight=2)),
        ChannelPolicy("z", Policy(paused=True)),
    )


def test_pausing_keeps_the_rest_of_the_policy(queue):
    channel = queue.channel("a")
    channel.set_policy(Policy(max_concurrency=2))
    channel.pause()
    assert channel.policy() == Policy(max_concurrency=2, paused=True)
    channel.resume()
    assert channel.policy() == Policy(max_concurrency=2)


def test_a_policy_of_another_queue_s_channel_is_not_ours(door, queue):
    other = door.fresh()
    other.channel("a").pause()
    sent(queue, "x", channel="a")
    assert texts(queue.receive()) == ["x"]


def test_a_channel_can_be_paused_before_it_has_messages(queue):
    queue.channel("a").pause()
    sent(queue, "x", channel="a")
    assert not queue.receive()
    queue.channel("a").clear_policy()
    assert texts(queue.receive()) == ["x"]


def test_a_channel_is_paused_for_a_time_by_the_database_s_clock(queue, clock):
    channel, other = queue.channel("a"), queue.channel("b")
    other.set_policy(Policy(weight=2))
    for name in ("a", "b", "c"):
        sent(queue, *(name * 2), channel=name)
    for paused in (channel, other):
        paused.pause(seconds=10, reason="429")
    assert channel.policy() == Policy(paused_until=clock.now + 10_000, pause_reason="429")
    assert {c.channel: c.blocked for c in queue.channels()} == {
        "a": "paused", "b": "paused", "c": None,
    }  # fmt: skip
    batch = queue.receive(9)
    assert texts(batch) == ["c", "c"]
    empty = queue.receive()
    assert (len(empty), empty.retry_after_seconds) == (0, 10.0)
    channel.pause(seconds=1)  # a longer pause that was stays
    clock.now += 9_999
    assert not queue.receive(9)
    clock.now += 1
    assert sorted(texts(queue.receive(9))) == ["a", "a", "b", "b"]
    assert queue.policies() == (ChannelPolicy("b", Policy(weight=2)),)


def test_resume_ends_a_pause_for_a_time(queue):
    channel = queue.channel("a")
    sent(queue, "x", channel="a")
    channel.pause(seconds=1_000, reason="429")
    assert not queue.receive()
    channel.resume()
    assert channel.policy() == NO_POLICY
    assert texts(queue.receive()) == ["x"]


def test_a_policy_comes_and_goes_many_times(queue):
    channel = queue.channel("a")
    sent(queue, *(str(n) for n in range(8)), channel="a")
    for n in range(4):
        channel.set_policy(Policy(paused=True))
        assert not queue.receive()
        channel.clear_policy()
        batch = queue.receive() or queue.receive()
        assert texts(batch) == [str(n)]
        batch[0].ack()


@each(
    "changes",
    [
        {"max_concurrency": 0},
        {"max_concurrency": -1},
        {"max_concurrency": True},
        {"max_concurrency": 1.0},
        {"max_concurrency": 2**31},
        {"max_size": 0},
        {"max_size": "1"},
        {"weight": 0},
        {"weight": 1_001},
        {"weight": 1.5},
        {"paused": 1},
        {"paused": None},
        {"rate": 5},
        {"rate": (1, 1, 1)},
        {"nonsense": 1},
    ],
)
def test_a_wrong_change_is_refused_and_changes_nothing(queue, changes):
    channel = queue.channel("a")
    channel.set_policy(WHOLE)
    with pytest.raises(UsageError):
        channel.change_policy(**changes)
    assert channel.policy() == WHOLE


@pytest.mark.parametrize("changes", [{"weight": 1_000}, {"max_concurrency": 2**31 - 1}])
def test_at_a_limit_is_taken(queue, changes):
    assert queue.channel("a").change_policy(**changes) == Policy(**changes)


@each("name", [None, 1, "a\x00", "\ud800", "x" * 256])
def test_a_wrong_channel_is_refused(queue, name):
    with pytest.raises(UsageError):
        queue.channel(name)


@each("wrong", [None, {"weight": 1}, 5])
def test_what_is_no_policy_is_refused(queue, wrong):
    with pytest.raises(UsageError):
        queue.channel("a").set_policy(wrong)


@each(
    "verb",
    [
        lambda q: q.channel("a").set_policy(WHOLE),
        lambda q: q.channel("a").change_policy(weight=2),
        lambda q: q.channel("a").policy(),
        lambda q: q.channel("a").pause(),
        lambda q: q.policies(),
    ],
)
@pytest.mark.driving
def test_a_missing_queue_is_said(door, verb):
    with pytest.raises(QueueNotFound):
        verb(door.mq.queue("nosuch"))

"""rate (P11): a token bucket that is never overdrawn, in no window of time."""

import itertools
import random

import pytest

from tests.conformance.steps import is_empty, one, sent
from tests.support.each import each
from tests.support.seeds import run_seed
from turnabout import Policy, Rate, UsageError, message


def limited(queue, rate, backlog=50, channel="a"):
    queue.channel(channel).set_policy(Policy(rate=rate))
    queue.send_many([message(str(n), channel=channel) for n in range(backlog)])


def test_one_at_a_time_evenly_spaced(queue, clock):
    """LonnyMQ's release interval: a rate of one, and so a burst of one."""
    limited(queue, Rate(1, per_seconds=0.25))
    for _ in range(4):
        assert len(queue.receive(10)) == 1
        batch = queue.receive(10)
        assert not batch
        assert batch.retry_after_seconds == 0.25
        clock.advance(ms=249)
        assert is_empty(queue)
        clock.advance(ms=1)


def test_a_burst_at_once_then_evenly_spaced(queue, clock):
    limited(queue, Rate(2, per_seconds=1, burst=3))
    assert len(queue.receive(10)) == 3
    assert queue.receive(10).retry_after_seconds == 0.5
    clock.advance(0.5)
    assert len(queue.receive(10)) == 1
    clock.advance(1)
    assert len(queue.receive(10)) == 2
    clock.advance(100)
    assert len(queue.receive(10)) == 3


def test_an_interval_that_is_no_whole_millisecond(queue, clock):
    limited(queue, Rate(3, per_seconds=1, burst=1), backlog=400)
    got, start = 0, clock.now
    while clock.now - start < 10_000:
        batch = queue.receive(10)
        got += len(batch)
        clock.advance(ms=1 if batch else batch.retry_after_ms)
    assert got == 30


def test_a_fast_rate_with_a_coarse_clock(queue, clock):
    limited(queue, Rate(5_000, per_seconds=1, burst=5), backlog=200)
    assert len(queue.receive(100)) == 5
    assert is_empty(queue)
    clock.advance(ms=1)
    assert len(queue.receive(100)) == 5


@pytest.mark.driving
def test_no_window_of_time_has_more_than_the_rate(queue, clock):
    chance = random.Random(run_seed())
    count, per_ms, burst = chance.choice([(2, 1_000, 1), (3, 500, 4), (7, 2_000, 3)])
    limited(queue, Rate(count, per_seconds=per_ms / 1000, burst=burst), backlog=300)
    starts = []
    for _ in range(120):
        batch = queue.receive(chance.choice([1, 2, 10]))
        starts += [clock.now] * len(batch)
        for m in batch:
            chance.choice([m.ack, m.release, lambda: None])()
        clock.advance(ms=chance.choice([0, 1, 10, 90, 400, 1_500]))
    for (i, first), (j, last) in itertools.combinations(enumerate(starts), 2):
        assert j - i + 1 <= burst + (last - first) * count / per_ms
    lost = (clock.now - starts[0]) * count / per_ms - len(starts)
    assert len(starts) > 10
    assert lost < (clock.now - starts[0]) * count / per_ms


@pytest.mark.needs("sharing")
def test_a_look_by_an_old_clock_forgives_no_debt(door, queue, clock):
    """A receiver that read the clock before another one, and comes to the bucket after it."""
    limited(queue, Rate(50, per_seconds=1, burst=5), backlog=60)
    with door.open() as other:
        late = other.queue(queue.name)
        for _ in range(10):
            clock.advance(ms=100)
            first, second, *others = queue.receive(10)
            assert len(others) == 3
            first.ack()  # the channel is looked at again
            clock.advance(ms=-90)
            assert is_empty(late)
            clock.advance(ms=90)
            second.ack()
            clock.advance(ms=1)
            assert is_empty(queue)
            clock.advance(ms=-1)
        clock.advance(
            ms=1
        )  # a file's clock does not go back, and the next test is behind this door


def test_redeliveries_take_tokens_too(queue, clock):
    limited(queue, Rate(1, per_seconds=1))
    got = one(queue)
    got.release()
    assert is_empty(queue)
    clock.advance(1)
    again = one(queue)
    assert (again.id, again.attempt) == (got.id, 2)


def test_tokens_are_each_channel_s_own(queue):
    limited(queue, Rate(1, per_seconds=1), channel="a")
    limited(queue, Rate(1, per_seconds=1, burst=2), channel="b")
    sent(queue, "free", channel="c")
    assert sorted(m.channel for m in queue.receive(10)) == ["a", "b", "b", "c"]


def test_the_queue_s_default_rate_is_for_each_channel(door, clock):
    queue = door.fresh(policy=Policy(rate=Rate(1, per_seconds=1)))
    for channel in "ab":
        sent(queue, "1", "2", channel=channel)
    assert sorted(m.channel for m in queue.receive(10)) == ["a", "b"]
    assert is_empty(queue)
    clock.advance(1)
    assert sorted(m.channel for m in queue.receive(10)) == ["a", "b"]


def test_a_faster_rate_holds_on_a_live_channel(queue, clock):
    limited(queue, Rate(1, per_seconds=1))
    one(queue)
    queue.channel("a").change_policy(rate=Rate(10, per_seconds=1))
    clock.advance(1)
    assert len(queue.receive(10)) == 1
    clock.advance(0.1)
    assert len(queue.receive(10)) == 1
    assert is_empty(queue)


@pytest.mark.parametrize("default", [False, True])
def test_the_debt_of_a_slower_rate_is_forgiven_but_for_a_bucket(door, clock, default):
    """At the first look under the new rate its bucket is as empty as it can be, and no emptier."""
    hour, fast = Rate(1, per_seconds=3600), Rate(10, per_seconds=1, burst=2)
    queue = door.fresh(policy=Policy(rate=hour)) if default else door.fresh()
    queue.send_many([message(str(n), channel="a") for n in range(9)])
    channel = queue.channel("a")
    if not default:
        channel.set_policy(Policy(rate=hour))
    one(queue)
    if default:
        queue.update(policy={"rate": fast})
    else:
        channel.change_policy(rate=fast)
    assert queue.receive(10).retry_after_ms == 100
    clock.advance(0.1)
    assert len(queue.receive(10)) == 1
    clock.advance(5)
    assert len(queue.receive(10)) == 2


def test_a_cleared_rate_limits_no_more(queue):
    limited(queue, Rate(1, per_seconds=3600), backlog=5)
    one(queue)
    queue.channel("a").clear_policy()
    assert len(queue.receive(10)) == 4


def test_clearing_and_setting_a_rate_gains_no_tokens(queue):
    limited(queue, Rate(1, per_seconds=60))
    one(queue)
    channel = queue.channel("a")
    channel.clear_policy()
    channel.set_policy(Policy(rate=Rate(1, per_seconds=60)))
    assert is_empty(queue)


def test_a_rate_and_slots_hold_together(queue, clock):
    queue.channel("a").set_policy(Policy(rate=Rate(1, per_seconds=1, burst=5), max_concurrency=2))
    queue.send_many([message(str(n), channel="a") for n in range(20)])
    a, b = queue.receive(10)
    a.ack()
    (c,) = queue.receive(10)
    b.ack()
    c.ack()
    assert len(queue.receive(10)) == 2
    assert is_empty(queue)


@each(
    "args",
    [
        (0,),
        (-1,),
        (True,),
        (1.5,),
        (1_000_001,),
        (1, 0),
        (1, -1),
        (1, float("nan")),
        (1, 86_401),
        (1, True),
        (1, 1, 0),
        (1, 1, 1_000_001),
        (1, 1, True),
    ],
)
def test_a_wrong_rate_is_refused(args):
    with pytest.raises(UsageError):
        Rate(*args)

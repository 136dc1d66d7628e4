"""The host's clock is set, forward and back, while old and new processes have a file open.

All take their time through `clock=`. Those of one host see the same in the end, but a step may come
between what one of them does and what another one does. Nobody sleeps.
"""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import turnabout
from tests.support.doors import START
from turnabout import Acked, LeaseLost, Policy, Rate

HOUR = 3_600_000
LEASE, DELAY, RATE = 30, 2, 20
KINDS = {"both": ["old", "new"], "old": ["old"], "new": ["new"]}


class Host:
    """Processes on one file; `steps` are what either kind sees besides the true time."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self.url, self.stack, self.now = url, stack, START
        self.steps = {"old": 0, "new": 0}

    def process(self, kind: str) -> Any:
        clock = lambda: self.now + self.steps[kind]  # noqa: E731
        return self.stack.enter_context(turnabout.connect(self.url, clock=clock))

    def wait(self, seconds: float) -> None:
        self.now += round(seconds * 1000)


@pytest.fixture
def host(tmp_path) -> Iterator[Host]:
    with ExitStack() as stack:
        yield Host(f"sqlite:///{tmp_path}/app.db?synchronous=off", stack)


def taken(processes: list[Any], queue: str, most: int = 1) -> list[str]:
    """What they are handed out, each asked once."""
    return [
        m.text() for mq in processes for m in mq.queue(queue).receive(most, lease_seconds=LEASE)
    ]


@pytest.mark.share(6)
@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("hours", [(1,), (-1,), (1, -1), (-1, 1), (2, -3, 1)], ids=str)
def test_a_clock_that_is_set_gives_no_second_lease_and_stops_nothing(host, first, hours):
    old = host.process("old")
    for queue in ("lease", "late", "delayed", "rate"):
        old.queue(queue).create(max_attempts=None)
    old.queue("rate").channel("").set_policy(Policy(rate=Rate(RATE, per_seconds=1, burst=1)))
    old.queue("rate").send_many(turnabout.message(str(n)) for n in range(400))
    for step in hours:
        for kinds in (KINDS[first], host.steps.keys() - KINDS[first]):
            for mq in (old, host.process("new")):  # both know the time that is gone then
                mq.queue("delayed").send("x", delay_seconds=DELAY)
            taken([old], "rate")
            for kind in kinds:
                host.steps[kind] += step * HOUR
    both = [old, host.process("new")]
    old.queue("delayed").send("x", delay_seconds=DELAY)  # (a step forward ends leases)

    # 1. What one holds nobody else gets, whoever looks first.
    for holder, other in (both, both[::-1]):
        holder.queue("lease").send("held")
        (held,) = holder.queue("lease").receive(lease_seconds=LEASE)
        host.wait(LEASE - 1)
        assert taken([other, holder], "lease") == []
        assert isinstance(held.ack(), Acked)

    # 2. Leases, delays and rates take their time, at most twice that, and never less.
    for sender, receiver in itertools.product(both, both):
        sender.queue("late").send("late", delay_seconds=DELAY)
        host.wait(DELAY - 1)
        assert taken([receiver], "late") == []
        host.wait(DELAY + 1)
        (late,) = receiver.queue("late").receive(lease_seconds=LEASE)
        host.wait(2 * LEASE)
        (again,) = sender.queue("late").receive()
        assert (type(late.ack()), type(again.ack())) == (LeaseLost, Acked)
    given = 0
    for _ in range(100):
        host.wait(0.1)
        given += len(taken(both, "rate", 10))
    assert RATE * 10 / 2 - 1 <= given <= RATE * 10 + 1
    assert len(taken([old], "delayed", 100)) == 4 * len(hours) + 1


def test_who_slept_while_the_file_followed_a_clock_drives_nobody_on(host):
    """Back by two days, and forward again to an hour ago, while one process did nothing."""
    awake, asleep = host.process("old"), host.process("old")
    for steps in [(0,), (-1,), (-47, 47)]:
        for step in steps:
            host.steps["old"] += step * HOUR
            awake.queue("lease").send("held")
        (held, *_) = awake.queue("lease").receive(10, lease_seconds=LEASE)
        assert taken([asleep], "lease") == [], steps
        assert isinstance(held.ack(), Acked)
        awake.queue("lease").purge()

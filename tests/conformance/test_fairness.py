"""Fairness as a verb: who is served, who waits, and whether that is fair."""

import random
from collections import defaultdict
from typing import Any

import pytest

from tests.conformance.steps import one, sent
from tests.support.each import each
from turnabout import Policy, Rate, UsageError, message

WINDOW, SLICES = 300, 30


def fill(queue: Any, channels: str, count: int = 400) -> None:
    for name in channels:
        queue.send_many([message("x", channel=name) for _ in range(count)])


def work(queue: Any, clock: Any, seconds: float, **options: Any) -> None:
    """Messages in batches of 16, one a second."""
    for _ in range(round(seconds)):
        batch = queue.receive(16, **options)
        clock.advance(1)
        queue.ack([m.receipt for m in batch])


def ratios(queue: Any, **options: Any) -> dict[str, float | None]:
    return {c.channel: c.ratio for c in queue.fairness(**options).channels}


@pytest.mark.driving
def test_shares_by_weight_are_fair(queue, clock):
    queue.channel("c").set_policy(Policy(weight=5))
    fill(queue, "abcd", 600)
    work(queue, clock, 50)
    shares = queue.fairness()
    assert {c.channel: c.served for c in shares.channels} == dict.fromkeys("abd", 100) | {"c": 500}
    assert all(0.9 <= c.ratio <= 1.1 for c in shares.channels)
    assert (shares.served, shares.waiting, shares.starved) == (800, 4, 0)
    assert shares.verdict() == (True, "Nobody is starved.")


def test_a_shard_that_nobody_serves_is_starved(queue, clock):
    fill(queue, "abcdefgh")
    work(queue, clock, 60, shard=(0, 2))
    shares = queue.fairness(10)
    starved = [c for c in shares.channels if c.starved]
    assert 0 < shares.starved == len(starved) < 8
    assert [c.starved for c in shares.channels] == sorted(
        (c.starved for c in shares.channels), reverse=True
    )
    assert {(c.got, c.ratio, c.blocked) for c in starved} == {(0, 0.0, None)}
    well, text = shares.verdict()
    assert not well
    assert f"{shares.starved} of 8 waiting channels are starved" in text
    assert text.endswith("Does somebody receive from their shard?")
    assert "shard" not in queue.fairness(1).verdict()[1], "it knows one of them only"
    assert "shard" not in queue.fairness(10, find="no such").verdict()[1]


def test_who_has_just_come_is_not_called_starved(queue, clock):
    fill(queue, "ab", 2_000)
    work(queue, clock, 100)
    fill(queue, "c")
    clock.advance(5)
    (c,) = queue.fairness(find="c").channels
    assert (c.got, c.fair, c.starved) == (0, None, False)
    clock.advance(20)
    work(queue, clock, 40, shard=(0, 1))
    assert queue.fairness().starved == 0


def test_what_limits_of_its_own_hold_is_not_called_starved(queue, clock):
    fill(queue, "abcd")
    queue.channel("a").pause()
    queue.channel("b").set_policy(Policy(rate=Rate(1, per_seconds=3600)))
    work(queue, clock, 60)
    shares = queue.fairness()
    blocked = {c.channel: (c.blocked, c.ratio, c.starved) for c in shares.channels}
    assert blocked["a"] == ("paused", None, False)
    assert blocked["b"] == ("rate", None, False)
    assert (shares.held, shares.starved) == (2, 0)
    queue.pause()
    shares = queue.fairness()
    assert shares.held == shares.waiting
    assert shares.verdict()[0]


def test_a_channel_at_its_rate_is_not_called_starved_between_two_tokens(queue, clock):
    fill(queue, "abc", 600)
    queue.channel("b").set_policy(Policy(rate=Rate(1, per_seconds=2)))
    work(queue, clock, 60)
    clock.advance(2)
    (b,) = queue.fairness(find="b").channels
    assert (b.blocked, b.starved) == (None, False)
    assert 20 <= b.got <= b.fair <= 32


def test_one_channel_has_nobody_to_be_compared_with(queue, clock):
    fill(queue, "a")
    work(queue, clock, 20)
    assert ratios(queue) == {"a": None}


def test_messages_that_nobody_receives(queue, clock):
    fill(queue, "ab", 3)
    assert queue.fairness().verdict() == (True, "Nobody is starved.")
    clock.advance(61)
    well, text = queue.fairness().verdict()
    assert not well
    assert text.startswith("Nobody is served: 6 messages in 2 channels wait, and none was")


def test_slow_work_that_has_all_the_leases(door, clock):
    queue = door.fresh(queue_max_concurrency=2)
    sent(queue, "1", "2", channel="slow")
    assert len(queue.receive(2, lease_seconds=3600)) == 2
    fill(queue, "ab", 3)
    clock.advance(100)
    shares = queue.fairness()
    assert {c.blocked for c in shares.channels if c.ready} == {"queue_concurrency"}
    well, text = shares.verdict()
    assert (well, "wait for the 2 that are leased" in text) == (False, True)


def test_time_of_workers_beside_messages(queue, clock):
    sent(queue, "quick", channel="quick")
    sent(queue, "slow", channel="slow")
    quick, slow = one_each(queue)
    clock.advance(1)
    quick.ack()
    clock.advance(8)
    slow.ack()
    busy = {c.channel: c.busy_ms for c in queue.fairness().channels}
    assert busy == {"quick": 1_000, "slow": 9_000}
    shares = queue.fairness()
    assert (shares.served, shares.busy_ms, shares.waiting) == (2, 10_000, 0)
    assert shares.verdict() == (True, "Nothing waits.")


def one_each(queue: Any) -> Any:
    return sorted(queue.receive(2), key=lambda m: m.channel)


def test_attempts_that_failed_are_service(door, clock):
    queue = door.fresh(max_attempts=3, backoff_seconds=0)
    sent(queue, "x", channel="bad")
    for _ in range(3):
        one(queue).fail("no")
    (bad,) = queue.fairness().channels
    assert bad.served == 3


def test_without_history_leases_are_all_that_is_known(door, clock):
    queue = door.fresh(history_seconds=0)
    fill(queue, "ab", 20)
    queue.receive(4)
    clock.advance(400)
    shares = queue.fairness()
    assert (shares.by_leases, shares.served, shares.starved) == (True, 4, 0)
    assert shares.verdict()[1].startswith("Nothing was finished")
    queue.update(history_seconds=60)
    assert not queue.fairness().by_leases


def test_sorted_found_and_paged(queue, clock):
    for number, name in enumerate(("Ada", "bob", "Cyd", "ada2"), 1):
        sent(queue, *map(str, range(number)), channel=name)
        clock.advance(1)

    def names(**options: Any) -> list[str]:
        return [c.channel for c in queue.fairness(**options).channels]

    assert names(sort="ready") == ["ada2", "Cyd", "bob", "Ada"]
    assert names(sort="oldest") == ["Ada", "bob", "Cyd", "ada2"]
    assert names(sort="channel") == ["Ada", "Cyd", "ada2", "bob"]
    assert names(sort="channel", find="AD") == ["Ada", "ada2"]
    assert queue.fairness(find="AD").found == 2
    assert queue.fairness(find="%").found == 0
    assert names(sort="ready", limit=1, offset=1) == ["Cyd"]
    receipts = [m.receipt for m in queue.receive(4)]
    queue.ack(receipts)
    assert {c.served for c in queue.fairness(sort="served").channels} == {1}
    assert queue.fairness(offset=100) == queue.fairness(offset=10)


@each(
    "options",
    [
        {"limit": 0},
        {"limit": True},
        {"offset": -1},
        {"window_seconds": -1},
        {"window_seconds": "5"},
        {"sort": "size"},
        {"find": 5},
        {"find": "\ud800"},
    ],
)
def test_a_wrong_question_is_refused(queue, options):
    with pytest.raises(UsageError):
        queue.fairness(**options)


# --- compared with a reckoning of its own ---------------------------------------------------------


def poured(service: dict[str, int], waits: dict[str, int]) -> float:
    """The level to which a slice's service fills those who wait, all in plain steps."""
    left, open_ = float(sum(service.values())), dict.fromkeys({*service, *waits}, 1)
    while True:
        if not open_:
            return 0.0
        level = left / len(open_)
        small = [c for c in open_ if c not in waits and service.get(c, 0) <= level]
        if not small:
            return level
        for c in small:
            del open_[c]
            left -= service.get(c, 0)


@pytest.mark.parametrize("seed", range(6))
def test_fair_shares_are_those_of_a_reckoning_by_hand(queue, clock, seed):
    chance, ended, since = random.Random(seed), [], defaultdict(list)
    for _ in range(60):
        for name in "abcdef":
            count = chance.choice([0, 0, 0, 1, 30]) if name < "d" else chance.choice([0, 1])
            queue.send_many([message("x", channel=name) for _ in range(count)])
            since[name] += [clock.now] * count
        batch = queue.receive(chance.choice([0, 3, 12]) or 1)
        clock.advance(chance.choice([1, 3, 7]))
        queue.ack([m.receipt for m in batch])
        for m in batch:
            since[m.channel].pop(0)
            ended.append((clock.now, m.channel))
    size = WINDOW * 1000 // SLICES
    waits = {c: (clock.now - times[0]) // size for c, times in since.items() if times}
    slices: list[dict[str, int]] = [defaultdict(int) for _ in range(SLICES)]
    for at, channel in ended:
        if clock.now - at < WINDOW * 1000:
            slices[(clock.now - at) // size][channel] += 1
    levels = [poured(s, {c: n for c, n in waits.items() if n > i}) for i, s in enumerate(slices)]
    several = sum(n > 0 for n in waits.values()) > 1
    for c in queue.fairness(window_seconds=WINDOW).channels:
        whole = min(SLICES, waits.get(c.channel, 0))
        fair = sum(levels[:whole]) if several and whole else None
        assert c.got == sum(s[c.channel] for s in slices[:whole])
        assert c.fair == (None if fair is None else pytest.approx(fair))

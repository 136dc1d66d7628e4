"""Fairness (P12): channels in turn, by weight, whoever has how many messages waiting."""

import itertools
import random
from collections import Counter

import pytest

from tests.conformance.steps import counts, do, is_empty, one_by_one, sent, texts
from turnabout import Policy, Rate, Retrying, message
from turnabout.words import verbs as v
from turnabout.words.entities import FIRST_TURN
from turnabout.words.turns import in_turn


def test_channels_are_served_in_turn_exactly(queue):
    for channel, names in {"a": ["a1", "a2", "a3", "a4"], "b": ["b1"], "c": ["c1", "c2"]}.items():
        sent(queue, *names, channel=channel)
    got = texts(one_by_one(queue))
    assert got == ["a1", "b1", "c1", "a2", "c2", "a3", "a4"]


def test_one_batch_is_in_turn_too(queue):
    for channel, names in {"a": ["a1", "a2", "a3", "a4"], "b": ["b1"], "c": ["c1", "c2"]}.items():
        sent(queue, *names, channel=channel)
    assert texts(queue.receive(7)) == ["a1", "b1", "c1", "a2", "c2", "a3", "a4"]


def test_turns_go_on_where_the_last_batch_ended(queue):
    for channel in "abcde":
        sent(queue, *(f"{channel}{n}" for n in range(4)), channel=channel)
    got = [texts(queue.receive(3)) for _ in range(5)]
    assert sorted(got[0]) == ["a0", "b0", "c0"]
    assert sorted(got[1]) == ["a1", "d0", "e0"]
    assert sorted(got[2]) == ["b1", "c1", "d1"]
    assert sorted(got[3]) == ["a2", "b2", "e1"]


def test_the_default_channel_has_its_turn_like_all(queue):
    sent(queue, "1", "2", channel="")
    sent(queue, "a1", "a2", channel="a")
    assert texts(one_by_one(queue)) == ["1", "a1", "2", "a2"]


def test_channels_stand_in_the_order_of_their_bytes(queue):
    names = ["", "Z", "a", "a ", "aa", "é", "Ω", "中", "\ue000", "🐎"]
    for name in reversed(names):
        sent(queue, name, channel=name)
    assert texts(one_by_one(queue)) == sorted(names, key=str.encode)


@pytest.mark.driving
def test_a_new_channel_waits_for_at_most_one_turn(queue):
    """Before, inside and behind a noisy crowd: nobody's backlog is in the way."""
    noisy = [f"n{n}" for n in range(5)]
    queue.send_many([message("noise", channel=c) for c in noisy for _ in range(200)])
    one_by_one(queue, most=7)
    for name in ("a", "n2-and-more", "z"):
        sent(queue, "new", channel=name)
        turn = [m.channel for m in one_by_one(queue, most=len(noisy) + 1)]
        assert name in turn, turn


def test_a_new_channel_waits_for_at_most_one_turn_of_batches(queue):
    noisy = [f"n{n:02}" for n in range(20)]
    queue.send_many([message("noise", channel=c) for c in noisy for _ in range(100)])
    queue.receive(10)
    sent(queue, "new", channel="m")
    batches = [[m.channel for m in queue.receive(10)] for _ in range(9)]
    assert "m" in [channel for batch in batches for channel in batch]


@pytest.mark.parametrize("size", [1, 3, 10, 50, 100])
def test_equal_backlogs_get_equal_shares(queue, size):
    queue.send_many([message("x", channel=c) for c in "abcde" for _ in range(300)])
    served = dict.fromkeys("abcde", 0)
    for _ in range(300 // size):
        batch = queue.receive(size)
        assert len(batch) == size
        for m in batch:
            served[m.channel] += 1
        queue.ack([m.receipt for m in batch])
    assert max(served.values()) - min(served.values()) <= 4, served


def test_a_batch_is_filled_from_one_channel_when_the_others_have_nothing(queue):
    sent(queue, *(str(n) for n in range(30)), channel="busy")
    sent(queue, "x", channel="quiet")
    assert len(queue.receive(31)) == 31


def test_weights_are_messages_a_turn(queue):
    queue.channel("a").set_policy(Policy(weight=3))
    for channel in "abc":
        sent(queue, *(f"{channel}{n}" for n in range(6)), channel=channel)
    got = [m.channel for m in one_by_one(queue, most=10)]
    assert got == list("aaabcaaabc")


@pytest.mark.parametrize("limits", [{"max_concurrency": 9}, {"rate": Rate(100, burst=9)}])
@pytest.mark.parametrize("size", [1, 2])
def test_a_turn_of_many_keeps_the_order_in_a_channel_with_limits(queue, limits, size):
    """Its share of the turn may be more than this receive asks for: the first ones go."""
    queue.channel("a").set_policy(Policy(weight=3, **limits))
    for priority in (9, 8, 5, 3, 2, 1):
        sent(queue, str(priority), channel="a", priority=priority)
    got = [m.priority for _ in range(6 // size) for m in queue.receive(size)]
    assert got == [1, 2, 3, 5, 8, 9]


@pytest.mark.parametrize("size", [1, 2, 5, 10])
def test_shares_are_by_weight_whatever_the_batches(queue, size):
    queue.channel("a").set_policy(Policy(weight=4))
    queue.channel("b").set_policy(Policy(weight=2))
    queue.send_many([message("x", channel=c) for c in "abcd" for _ in range(300)])
    served = dict.fromkeys("abcd", 0)
    while sum(served.values()) < 240:
        batch = queue.receive(size)
        for m in batch:
            served[m.channel] += 1
        queue.ack([m.receipt for m in batch])
    turns = [served["a"] / 4, served["b"] / 2, served["c"], served["d"]]
    assert max(turns) <= 1.5 * min(turns), served


BUSY = [
    ((3, 1), 10),
    ((1, 3), 7),
    ((5, 1), 20),
    ((2, 2, 1), 7),
    ((10, 1, 1), 39),
    ((100, 1), 50),
    ((7, 1, 1, 1), 1_000),
    ((1,) * 10, 9),
    ((1,) * 24, 50),
    ((1,) * 26, 50),
    ((2, *(1,) * 25), 50),
    ((1,) * 66, 100),
]


def drawn(chance: random.Random) -> tuple[tuple[int, ...], int]:
    """Weights of channels, and the size of a batch."""
    heavy = chance.choice([1, 2, 4, 12])
    weights = [chance.randint(1, heavy) for _ in range(chance.choice([2, 3, 5, 12, 40]))]
    return tuple(weights), round(10 ** chance.uniform(0, 3))


@pytest.mark.share(20)
@pytest.mark.parametrize(
    ("weights", "size"), [*BUSY, *(drawn(random.Random(seed)) for seed in range(8))]
)
@pytest.mark.parametrize("receivers", [1, 3])
def test_each_busy_channel_has_its_share(queue, weights, size, receivers):
    """Nine tenths of it, but for one visit by each receiver, whatever fits into their batches."""
    names = [f"c{n:02}" for n in range(len(weights))]
    for name, weight in zip(names, weights, strict=True):
        if weight > 1:
            queue.channel(name).set_policy(Policy(weight=weight))
    visit = 4 if size >= 40 else 2
    total = max(400, 4 * size, 10 * receivers * visit * sum(weights))
    share = total / sum(weights)
    for name, weight in zip(names, weights, strict=True):
        backlog = [message("x", channel=name)] * round(1.3 * share * weight + 2 * size)
        for first in range(0, len(backlog), 1000):
            queue.send_many(backlog[first : first + 1000])

    chance, served = random.Random(size), Counter[str]()
    turns = [FIRST_TURN] * receivers
    while served.total() < total:
        who = chance.randrange(receivers)
        got = do(queue, v.Receive, size, turn=turns[who])
        deliveries, guess = in_turn(got.deliveries, turns[who])
        assert len(deliveries) == size
        turns[who] = got.turn or guess
        served.update(delivery.channel for delivery in deliveries)
    share = served.total() / sum(weights)
    for name, weight in zip(names, weights, strict=True):
        assert served[name] >= 0.9 * share * weight - receivers * visit * weight, served


def test_a_weight_changes_on_a_live_channel(queue):
    queue.send_many([message("x", channel=c) for c in "ab" for _ in range(30)])
    assert [m.channel for m in one_by_one(queue, most=4)] == list("abab")
    queue.channel("b").change_policy(weight=2)
    got = [m.channel for m in one_by_one(queue, most=9)]
    assert got.count("b") == 6, got
    queue.channel("b").clear_policy()
    got = [m.channel for m in one_by_one(queue, most=8)]
    assert abs(got.count("b") - 4) <= 1, got


def test_limited_and_unlimited_channels_share_the_turns(queue):
    queue.channel("b").set_policy(Policy(max_concurrency=100))
    for channel in "abc":
        sent(queue, "1", "2", channel=channel)
    assert [m.channel for m in one_by_one(queue)] == list("abcabc")


def test_a_message_that_comes_back_queues_like_everyone_else(queue):
    for channel in "abc":
        sent(queue, f"{channel}1", f"{channel}2", channel=channel)
    (a,) = queue.receive()
    assert isinstance(a.fail(delay_seconds=0), Retrying)
    assert texts(one_by_one(queue)) == ["b1", "c1", "a1", "b2", "c2", "a2"]


def test_a_crowd_of_redeliveries_keeps_nobody_waiting(queue, clock):
    queue.send_many([message("poison", channel="bad") for _ in range(60)])
    for _ in range(60):
        queue.receive()
    clock.advance(30)
    sent(queue, "1", "2", "3", channel="good")
    got = [m.channel for m in one_by_one(queue, most=6)]
    assert got.count("good") == 3, got


def test_saturated_channels_cost_the_others_nothing(queue):
    for n in range(50):
        queue.channel(f"full{n}").set_policy(Policy(max_concurrency=1))
    queue.send_many([message("x", channel=f"full{n}") for n in range(50) for _ in range(3)])
    assert len(queue.receive(1000)) == 50
    sent(queue, "free", channel="other")
    assert texts(queue.receive(10)) == ["free"]
    assert is_empty(queue)


# --- shards ---


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_shards_cover_every_channel_exactly_once(queue, count):
    channels = [f"customer-{n}" for n in range(41)]
    queue.channel("customer-3").set_policy(Policy(max_concurrency=5))
    queue.send_many([message("x", channel=c) for c in channels for _ in range(2)])
    seen = []
    for index in range(count):
        batch = queue.receive(1000, shard=(index, count))
        seen.append({m.channel for m in batch})
    assert set().union(*seen) == set(channels)
    assert sum(len(part) for part in seen) == len(channels)
    assert counts(queue).ready == 0
    if count > 1:
        assert all(seen), "40 channels, and a shard without any"


@pytest.mark.driving
def test_shards_share_messages_without_a_channel_by_their_ids(queue):
    queue.send_many([message(str(n)) for n in range(5)])
    shards = [queue.receive(10, shard=(index, 3)) for index in range(3)]
    assert sorted(len(part) for part in shards) == [1, 2, 2]
    assert all(m.id % 3 == index for index, part in enumerate(shards) for m in part)
    queue.send_many([message(str(n), channel=c) for n in range(6) for c in ("", "other")])
    one_by_one = [m for _ in range(12) for m in queue.receive(1, shard=(1, 3))]
    assert len({m.id for m in one_by_one if not m.channel}) == 2


@pytest.mark.parametrize("limits", [{"fifo": True}, {"policy": Policy(max_concurrency=9)}])
def test_limits_keep_messages_without_a_channel_in_one_shard(door, limits):
    queue = door.fresh(**limits)
    queue.send_many([message(str(n)) for n in range(5)])
    got = [len(queue.receive(9, shard=(index, 3))) for index in range(3)]
    assert sorted(got) == [0, 0, 1 if "fifo" in limits else 5]


def test_a_shard_has_only_its_own_channels_however_often_it_asks(queue):
    queue.send_many([message("x", channel=f"c{n}") for n in range(20) for _ in range(3)])
    zero = {m.channel for _ in range(60) for m in queue.receive(1, shard=(0, 2))}
    one = {m.channel for _ in range(60) for m in queue.receive(1, shard=(1, 2))}
    assert zero.isdisjoint(one)
    assert len(zero | one) == 20
    assert is_empty(queue)


def test_shards_of_one_process_do_not_starve_each_other(queue):
    """Two receivers of different shards share a connection; each has turns of its own."""
    channels = [f"c{n:02}" for n in range(30)]
    queue.send_many([message("x", channel=c) for c in channels])
    of = {0: [], 1: []}
    for index in of:
        of[index] = [m.channel for m in queue.receive(1000, shard=(index, 2))]
    low = sorted(of[0])[:2]
    high = [c for c in sorted(of[1]) if c > low[1]][-1]
    queue.send_many([message("again", channel=c) for c in (*low, high) for _ in range(10)])
    served = []
    for _ in range(4):
        served += [m.channel for m in queue.receive(1, shard=(0, 2))]
        served += [m.channel for m in queue.receive(1, shard=(1, 2))]
    assert set(served) == {*low, high}, served


@pytest.mark.needs("sharing")
def test_two_receivers_share_the_channels_without_colliding(door, queue):
    queue.send_many([message("x", channel=c) for c in "abcdef" for _ in range(4)])
    with door.open() as other:
        seen = []
        for mine, theirs in itertools.repeat((queue, other.queue(queue.name)), 12):
            seen += [m.id for m in mine.receive()] + [m.id for m in theirs.receive()]
    assert len(seen) == len(set(seen)) == 24

"""The order inside a batch, and the place where the next one starts."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from tests.support.each import each
from turnabout.waiting import pacing
from turnabout.waiting.pacing import Rounds
from turnabout.words.entities import FIRST_TURN, Delivery, Turn
from turnabout.words.turns import in_turn


def delivery(number, channel="", priority=0):
    return Delivery(number, 1, channel, priority, b"", "x", None, None, 0, 0, 0, None, 0, 0)


def batch(text):
    """`a1 b2` is message 1 of channel a, then message 2 of channel b."""
    return [delivery(int(word[1:]), word[0]) for word in text.split()]


def shown(deliveries):
    return " ".join(f"{d.channel}{d.id}" for d in deliveries)


@each(
    ("given_", "start", "wanted", "after"),
    [
        ("", FIRST_TURN, "", FIRST_TURN),
        ("", Turn("k", 3), "", Turn("k", 3)),
        ("a1", FIRST_TURN, "a1", Turn("a", 1)),
        ("a1", Turn("a", 1), "a1", Turn("a", 2)),
        ("b2 a1", FIRST_TURN, "a1 b2", Turn("b", 1)),
        ("a1 b2", Turn("a", 1), "a1 b2", Turn("b", 1)),
        # A channel whose turn may not be over comes first: its weight is not known here.
        ("a1 b2", Turn("b", 1), "b2 a1", Turn("a", 1)),
        ("a1 c3", Turn("b", 1), "c3 a1", Turn("a", 1)),
        ("c3 b2 a1 a4 a5", FIRST_TURN, "a1 b2 c3 a4 a5", None),
        ("a9 a3 a5", FIRST_TURN, "a3 a5 a9", Turn("a", 3)),
        ("a1 b2", Turn("b", 0), "a1 b2", Turn("b", 1)),
    ],
)
def test_examples(given_, start, wanted, after):
    ordered, turn = in_turn(batch(given_), start)
    assert shown(ordered) == wanted
    if after is not None:  # else the weights would have to be known
        assert turn == after


def test_priority_goes_before_the_order_of_sending():
    ordered, _ = in_turn([delivery(1), delivery(2, priority=-1), delivery(3)], FIRST_TURN)
    assert [d.id for d in ordered] == [2, 1, 3]


def test_channels_stand_in_the_order_of_their_bytes():
    names = ["🐎", "\ue000", "é", "z", "Z", ""]
    ordered, _ = in_turn([delivery(n, c) for n, c in enumerate(names)], FIRST_TURN)
    assert [d.channel for d in ordered] == sorted(names, key=str.encode)


CHANNELS = st.sampled_from(["", "a", "b", "é", "🐎"])


@given(
    st.lists(st.tuples(CHANNELS, st.integers(-2, 2)), max_size=12),
    st.builds(Turn, st.none() | CHANNELS, st.integers(0, 3)),
)
def test_it_is_a_fair_order_of_the_same_messages(messages, start):
    given_ = [delivery(n, channel, priority) for n, (channel, priority) in enumerate(messages)]
    ordered, after = in_turn(given_, start)
    assert sorted(d.id for d in ordered) == [d.id for d in given_]
    rank = dict.fromkeys((d.channel for d in given_), 0)
    ranks = []
    for d in ordered:
        ranks.append(rank[d.channel])
        rank[d.channel] += 1
    assert ranks == sorted(ranks), "a channel has a second message before another's first"
    for channel in rank:
        own = [(d.priority, d.id) for d in ordered if d.channel == channel]
        assert own == sorted(own)
    assert after == start if not given_ else after.channel in rank


# --- the memory of receivers ---


def test_a_round_goes_on_where_it_was():
    rounds = Rounds()
    assert rounds.take("q") == FIRST_TURN
    rounds.put("q", Turn("a", 1))
    assert rounds.take("other") == FIRST_TURN
    assert rounds.take("q") == Turn("a", 1)
    assert rounds.take("q") == FIRST_TURN, "while somebody has it, nobody else gets it"


def test_concurrent_receivers_stand_at_places_of_their_own():
    rounds = Rounds()
    rounds.put("q", Turn("a", 1))
    rounds.put("q", Turn("b", 1))
    assert {rounds.take("q").channel, rounds.take("q").channel} == {"a", "b"}


def test_only_so_many_places_are_remembered(monkeypatch):
    monkeypatch.setattr(pacing, "TURNS_MAX", 2)
    rounds = Rounds()
    for queue in ("a", "b", "a", "c"):
        rounds.put(queue, Turn(queue, 1))
    assert rounds.take("b") == FIRST_TURN, "the one that was put back longest ago is forgotten"
    assert (rounds.take("a").channel, rounds.take("c").channel) == ("a", "c")


def test_the_memory_is_bounded():
    rounds = Rounds()
    for n in range(1_000):
        rounds.put("q", Turn(str(n), 1))
    taken = 0
    while rounds.take("q") != FIRST_TURN:
        taken += 1
    assert 0 < taken < 100


def test_only_so_many_queues_are_remembered(monkeypatch):
    monkeypatch.setattr(pacing, "TURNS_MAX", 2)
    rounds = Rounds()
    assert not any(rounds.must_maintain(queue, 0.1) for queue in ("a", "b", "c"))
    assert list(rounds._maintained) == ["b", "c"], "first seen, first forgotten"


def test_many_threads_lose_no_turn():
    rounds = Rounds()
    for n in range(8):
        rounds.put("q", Turn(str(n), 1))

    def turn():
        for _ in range(500):
            rounds.put("q", rounds.take("q"))

    threads = [threading.Thread(target=turn) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {rounds.take("q").channel for _ in range(8)} == set("01234567")


def test_a_queue_is_tended_once_in_a_while(monkeypatch):
    now = 100.0
    monkeypatch.setattr(pacing.time, "monotonic", lambda: now)
    rounds = Rounds()
    assert not rounds.must_maintain("q")
    now += pacing.MAINTAIN_SECONDS
    assert rounds.must_maintain("q")
    assert not rounds.must_maintain("q")
    assert not rounds.must_maintain("other")

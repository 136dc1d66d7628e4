"""A receive's messages are leased together, and each is settled by itself: what happens to one of a
batch leaves the others' leases, and their receipts, as they were.
"""

import pytest

from tests.conformance.steps import counts, is_empty, one, sent, texts
from turnabout import (
    Acked,
    Deferral,
    Extended,
    Failure,
    LeaseLost,
    Policy,
    Receipt,
    Released,
    message,
)

SETTLE = {
    "ack": lambda queue, receipt: queue.ack([receipt])[0],
    "extend": lambda queue, receipt: queue.extend([receipt])[0],
    "release": lambda queue, receipt: queue.release([receipt])[0],
    "defer": lambda queue, receipt: queue.defer([Deferral(receipt)])[0],
    "fail": lambda queue, receipt: queue.fail([Failure(receipt, "no")])[0],
}
verbs = pytest.mark.parametrize("verb", SETTLE)


@verbs
@pytest.mark.parametrize("history", [0, 60])
def test_a_receipt_of_what_was_given_back_is_stale_while_the_rest_is_out(door, verb, history):
    queue = door.fresh(history_seconds=history)
    sent(queue, "a", "b")
    a, b = queue.receive(2)
    assert a.release() == Released()
    (again,) = queue.receive(2)
    assert (again.id, again.attempt) == (a.id, 2)
    assert SETTLE[verb](queue, a.receipt) == LeaseLost("leased")
    assert counts(queue).leased == 2
    assert (again.ack(), b.ack()) == (Acked(), Acked())


@verbs
def test_a_receipt_of_a_lease_that_never_was_is_lost(queue, verb):
    (number,) = sent(queue, "a")
    assert SETTLE[verb](queue, Receipt(number, 1, 10**9)) == LeaseLost("ready")
    assert texts(queue.receive(10)) == ["a"]
    assert is_empty(queue)


@verbs
@pytest.mark.parametrize("history", [0, 60])
def test_a_lease_is_of_no_other_message(door, verb, history):
    """Its number is not enough: a forged receipt names one that lives, and what still waits."""
    queue = door.fresh(history_seconds=history)
    waiting = sent(queue, "a", "b", "c")
    a, b = queue.receive(2)
    forged = Receipt(waiting[2], 1, a.receipt.lease)
    assert SETTLE[verb](queue, forged) == LeaseLost("ready")
    assert b.release() == Released()
    given_back = Receipt(b.id, 2, b.receipt.lease)
    assert SETTLE[verb](queue, given_back) == LeaseLost("ready")
    assert queue.ack([given_back, forged]) == (LeaseLost("ready"), LeaseLost("ready"))
    assert queue.ack([forged, a.receipt]) == (LeaseLost("ready"), Acked())
    assert texts(queue.receive(10)) == ["b", "c"]
    assert counts(queue).leased == 2


@verbs
def test_what_is_settled_of_a_batch_is_not_of_its_lease_any_more(queue, clock, verb):
    sent(queue, "a", "b", "c")
    a, _, _ = queue.receive(3, lease_seconds=10)
    SETTLE[verb](queue, a.receipt)
    clock.advance(10)
    back = {m.text(): (m.attempt, m.crashes) for m in queue.receive(3, lease_seconds=60)}
    assert (back["b"], back["c"]) == ((2, 1), (2, 1))
    assert back.get("a") == ((2, 0) if verb in ("release", "defer", "fail") else None)
    assert is_empty(queue)


def test_one_of_a_batch_is_extended_and_the_others_run_out(queue, clock):
    sent(queue, "a", "b", "c")
    a, b, c = queue.receive(3, lease_seconds=10)
    assert b.extend(lease_seconds=30) == Extended(clock.now + 30_000)
    clock.advance(10)
    assert texts(queue.receive(3, lease_seconds=60)) == ["a", "c"]
    assert b.extend(lease_seconds=10) == Extended(clock.now + 20_000), "it is never made shorter"
    clock.advance(ms=19_999)
    assert is_empty(queue)
    assert (a.ack(), c.ack()) == (LeaseLost("leased"), LeaseLost("leased"))
    clock.advance(ms=1)
    assert texts([one(queue)]) == ["b"]


def test_an_earlier_lease_s_end_takes_nothing_from_a_later_one(queue, clock):
    """It was given back, and leased and extended again, while the first batch was still out."""
    sent(queue, "a", "b")
    a, _ = queue.receive(2, lease_seconds=10)
    a.release()
    sent(queue, "c")
    again, _ = queue.receive(2, lease_seconds=20)
    assert again.id == a.id
    assert again.extend(lease_seconds=60) == Extended(clock.now + 60_000)
    clock.advance(10)
    assert texts(queue.receive(10, lease_seconds=100)) == ["b"]
    clock.advance(10)
    assert texts(queue.receive(10, lease_seconds=100)) == ["c"]
    clock.advance(ms=39_999)
    assert is_empty(queue)
    assert again.ack() == Acked()


def test_what_is_settled_one_by_one_frees_the_slots_one_by_one(queue):
    queue.channel("a").set_policy(Policy(max_concurrency=3))
    queue.send_many([message(str(n), channel="a") for n in range(6)])
    batch = queue.receive(10)
    assert texts(batch) == ["0", "1", "2"]
    for n, held in enumerate(batch):
        assert held.ack() == Acked()
        assert texts(queue.receive(10)) == [str(3 + n)]
        assert is_empty(queue)

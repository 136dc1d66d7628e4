"""ack: done once and for all, and only by who holds the lease (P6, P7)."""

import pytest

from tests.conformance.steps import counts, is_empty, one, sent, taken
from tests.support.each import each
from turnabout import Acked, LeaseLost, QueueNotFound, Receipt, UsageError


def test_an_acked_message_is_done(queue, clock):
    assert taken(queue, "a").ack() == Acked()
    stats = counts(queue)
    assert (stats.done, stats.leased, stats.sent) == (1, 0, 1)
    clock.advance(365 * 86_400)
    assert is_empty(queue)


@pytest.mark.driving
def test_a_second_ack_finds_nothing(queue):
    got = taken(queue, "a")
    assert got.ack() == Acked()
    assert got.ack() == LeaseLost("gone")
    assert counts(queue).done == 1


@pytest.mark.driving
def test_a_stale_receipt_changes_nothing_while_somebody_else_has_the_message(queue, clock):
    stale = taken(queue, "a", lease_seconds=1)
    clock.advance(1)
    fresh = one(queue, lease_seconds=60)
    assert stale.ack() == LeaseLost("leased")
    assert counts(queue).leased == 1
    assert fresh.ack() == Acked()
    assert stale.ack() == LeaseLost("gone")


def test_after_the_lease_but_before_anybody_else_has_it_an_ack_counts(queue, clock):
    late = taken(queue, "a", lease_seconds=1)
    clock.advance(60)
    assert late.ack() == Acked()
    assert is_empty(queue)
    assert counts(queue).done == 1


@pytest.mark.driving
def test_a_lease_that_was_taken_away_is_lost(queue, clock):
    late = taken(queue, "a", channel="a", lease_seconds=1)
    queue.channel("a").pause()
    clock.advance(1)
    assert is_empty(queue)
    assert late.ack() == LeaseLost("ready")
    assert counts(queue).ready == 1


@pytest.mark.parametrize("back", ["release", "defer", "fail"])
def test_who_gave_a_message_back_has_lost_it(queue, back):
    got = taken(queue, "a")
    if back == "release":
        got.release()
        assert got.ack() == LeaseLost("ready")
    else:
        getattr(got, back)(delay_seconds=5)
        assert got.ack() == LeaseLost("scheduled")
    assert counts(queue).done == 0


def test_forged_receipts_change_nothing(queue):
    (known,) = sent(queue, "a")
    sent(queue, "b")
    queue.receive(1)
    for receipt, now in [
        (Receipt(known, 2), "leased"),
        (Receipt(known, 2**31 - 1), "leased"),
        (Receipt(known + 1, 1), "ready"),
        (Receipt(known + 1_000_000, 1), "gone"),
        (Receipt(2**63 - 1, 1), "gone"),
    ]:
        assert queue.ack([receipt]) == (LeaseLost(now),), receipt
    stats = counts(queue)
    assert (stats.ready, stats.leased, stats.done) == (1, 1, 0)


def test_a_message_of_another_queue_is_not_ours(door, queue):
    other = door.fresh()
    got = taken(other, "a")
    assert queue.ack([got.receipt]) == (LeaseLost("gone"),)
    assert got.ack() == Acked()


def test_among_ours_a_message_of_another_queue_stays(door, queue):
    other = door.fresh()
    for one_of_them in (other, queue):
        one_of_them.update(history_seconds=60)
        sent(one_of_them, *"ab")
    first, second = other.receive(2)
    assert first.ack() == Acked()
    ours = [message.receipt for message in queue.receive(2)]
    assert queue.ack([second.receipt, *ours]) == (LeaseLost("gone"), Acked(), Acked())
    assert [entry.id for entry in queue.history().entries] == [
        one_of_ours.id for one_of_ours in reversed(ours)
    ]
    assert second.ack() == Acked()
    assert (counts(other).done, counts(queue).done) == (2, 2)


@pytest.mark.driving
def test_many_at_once_answer_each_in_order(queue, clock):
    sent(queue, *"abcd")
    a, b, c, d = queue.receive(4)
    b.ack()
    c.defer(delay_seconds=9)
    forged = Receipt(d.id, d.attempt + 1)
    outcomes = queue.ack([d.receipt, c.receipt, forged, a.receipt, b.receipt])
    assert outcomes == (Acked(), LeaseLost("scheduled"), outcomes[2], Acked(), LeaseLost("gone"))
    assert isinstance(outcomes[2], LeaseLost)
    assert counts(queue).done == 3


def test_the_same_receipt_twice_in_one_call_is_done_once(queue):
    receipt = taken(queue, "a").receipt
    assert queue.ack([receipt] * 1_000) == (Acked(), *[LeaseLost("gone")] * 999)
    assert counts(queue).done == 1


@pytest.mark.driving
def test_no_receipts_are_no_outcomes(queue):
    assert queue.ack([]) == ()


@each("wrong", ["4711.1", (1, 1), None, 1])
def test_what_is_no_receipt_is_refused(queue, wrong):
    with pytest.raises(UsageError):
        queue.ack([wrong])


@pytest.mark.slow
def test_a_thousand_at_once(queue):
    sent(queue, *(str(n) for n in range(1_100)))
    receipts = [m.receipt for _ in range(2) for m in queue.receive(1000)]
    assert queue.ack(receipts) == (Acked(),) * 1_100
    assert queue.ack(receipts) == (LeaseLost("gone"),) * 1_100
    assert counts(queue).done == 1_100


@pytest.mark.driving
def test_a_missing_queue_is_said(door):
    with pytest.raises(QueueNotFound):
        door.mq.queue("nosuch").ack([Receipt(1, 1)])

"""receive with `acks`: these are done, and the next are leased, in one call and one transaction."""

import pytest

from tests.conformance.steps import counts, ending, one, sent, taken, texts
from turnabout import Acked, LeaseLost, Policy, QueueNotFound, Receipt, UsageError

DONE = Acked()
pytestmark = pytest.mark.driving


@pytest.mark.parametrize("many", [1, 3, 30])
def test_what_is_acked_is_done_and_the_next_is_leased(queue, many):
    sent(queue, *(f"{n:02}" for n in range(2 * many)))
    first = queue.receive(many)
    second = queue.receive(many, acks=first)
    assert texts(second) == [f"{n:02}" for n in range(many, 2 * many)]
    assert second.acked == (DONE,) * many
    stats = counts(queue)
    assert (stats.done, stats.leased) == (many, many)
    last = queue.receive(many, acks=second)
    assert not last
    assert last.acked == (DONE,) * many
    assert counts(queue).done == 2 * many


@pytest.mark.parametrize("form", ["message", "receipt"])
def test_a_stale_receipt_is_told_and_the_rest_goes_on(queue, clock, form):
    sent(queue, "a", "b", "c")
    stale = one_of(queue, lease_seconds=1)
    clock.advance(1)
    fresh = queue.receive(2, lease_seconds=60)
    assert {m.text() for m in fresh} == {"a", "b"}
    acks = [stale, *fresh] if form == "message" else [m.receipt for m in [stale, *fresh]]
    batch = queue.receive(1, acks=acks)
    assert texts(batch) == ["c"]
    assert batch.acked == (LeaseLost("leased"), DONE, DONE)
    assert counts(queue).done == 2


def test_of_one_message_twice_the_second_is_lost(queue):
    sent(queue, "a", "b")
    a = one_of(queue)
    batch = queue.receive(1, acks=[a, a])
    assert batch.acked == (DONE, LeaseLost("gone"))
    assert texts(batch) == ["b"]


def test_a_receipt_of_another_queue_is_lost(door):
    queue, other = door.fresh(), door.fresh()
    got = taken(other, "theirs")
    sent(queue, "ours")
    batch = queue.receive(1, acks=[got])
    assert batch.acked == (LeaseLost("gone"),)
    assert texts(batch) == ["ours"]
    assert got.ack() == DONE


def test_the_head_of_a_fifo_channel_opens_it(door):
    queue = door.fresh(fifo=True)
    sent(queue, "1", "2", "3", channel="c")
    message = one(queue)
    assert message.text() == "1"
    for text in ("2", "3"):
        (message,) = queue.receive(10, acks=[message])
        assert message.text() == text
    assert queue.receive(10, acks=[message]).acked == (DONE,)
    assert counts(queue).done == 3


def test_a_slot_that_becomes_free_counts(queue):
    queue.channel("c").set_policy(Policy(max_concurrency=2))
    sent(queue, *"abcd", channel="c")
    held = queue.receive(10)
    assert len(held) == 2
    assert len(queue.receive(10, acks=[held[0]])) == 1


def test_a_slot_of_the_queue_that_becomes_free_counts(door):
    queue = door.fresh(queue_max_concurrency=1)
    sent(queue, "a", "b")
    batch = queue.receive(10, acks=[one(queue)])
    assert texts(batch) == ["b"]


def test_results_are_kept(queue):
    ids = sent(queue, "a", "b")
    batch = queue.receive(2)
    after = queue.receive(1, acks=batch, results=[{"n": 1}, None])
    assert after.acked == (DONE, DONE)
    assert ending(queue, ids[0]).result.json() == {"n": 1}
    assert ending(queue, ids[1]).result is None


def test_with_a_wait_what_is_done_does_not_wait(queue):
    message = taken(queue, "a")
    batch = queue.receive(1, wait_seconds=0.2, acks=[message])
    assert not batch
    assert batch.acked == (DONE,)
    assert counts(queue).done == 1


def test_results_without_acks_are_refused(queue):
    with pytest.raises(UsageError, match="results"):
        queue.receive(1, results=["x"])
    with pytest.raises(UsageError, match="Receipt"):
        queue.receive(1, acks=["4711.1"])


def test_a_queue_that_is_missing_is_told(door):
    queue = door.mq.queue(f"{door.fresh().name}-missing")
    with pytest.raises(QueueNotFound):
        queue.receive(1, acks=[Receipt(1, 1)])


@pytest.mark.parametrize("many", [1, 2])
def test_a_loop_acks_each_when_it_asks_for_the_next(queue, many):
    sent(queue, *"abcde")
    got = []
    with queue.consume(many) as loop:
        for message in loop:
            got.append(message.text())
            if message.text() == "d":
                break
    assert got == list("abcd")
    assert (counts(queue).done, counts(queue).leased) == (3, 0)
    with queue.consume(many) as loop:
        assert texts(loop) == ["d", "e"]
    assert counts(queue).done == 5


def one_of(queue, **options):
    """The next message."""
    (message,) = queue.receive(1, **options)
    return message

"""cancel: at once where a message waits, cooperative where it is leased."""

import pytest

from tests.conformance.steps import (
    acked,
    counts,
    ending,
    finished,
    grave_of,
    is_empty,
    maintained,
    one,
    one_by_one,
    sent,
    texts,
)
from tests.support.each import each
from turnabout import Acked, Extended, LeaseLost, Policy, QueueNotFound, Released, message
from turnabout.words.outcomes import Cancelled, CancelRequested, NotWaiting


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("delay", [0, 60])
def test_a_waiting_message_ends_at_once(door, clock, delay, fifo):
    queue = door.fresh(fifo=fifo)
    (number,) = sent(queue, "a", delay_seconds=delay)
    assert queue.cancel((number,)) == (Cancelled(),)
    assert counts(queue).cancelled == 1
    clock.advance(100)
    assert is_empty(queue)
    assert ending(queue, number).outcome == "cancelled"
    assert queue.cancel((number,)) == (NotWaiting("gone"),)


@pytest.mark.driving
def test_what_is_gone_stays_gone(door):
    queue, other = door.fresh(max_attempts=1), door.fresh()
    done, dead = sent(queue, "done", "dead")
    held = {m.id: m for m in queue.receive(2)}
    held[done].ack()
    held[dead].fail()
    (elsewhere,) = sent(other, "x")
    assert queue.cancel((done, dead, elsewhere, 2**62)) == (NotWaiting("gone"),) * 4
    assert queue.cancel(()) == ()
    assert (counts(queue).cancelled, counts(other).ready) == (0, 1)
    assert grave_of(queue).cancel((dead,)) == (Cancelled(),)


@pytest.mark.driving
def test_many_are_answered_in_order(queue):
    numbers = sent(queue, *"abcd")
    (held,) = queue.receive()
    assert held.id == numbers[0]
    answers = queue.cancel((*reversed(numbers), 2**62))
    assert answers == (*[Cancelled()] * 3, CancelRequested(), NotWaiting("gone"))
    assert counts(queue).cancelled == 3


@pytest.mark.driving
def test_the_holder_sees_the_wish_at_its_next_extend(queue, clock):
    (number,) = sent(queue, "a")
    held = one(queue)
    assert held.extend(lease_seconds=60) == Extended(clock.now + 60_000)
    for _ in range(2):  # asked twice is asked
        assert queue.cancel((number,)) == (CancelRequested(),)
    assert queue.peek()[0].cancel_requested
    assert held.extend(lease_seconds=70) == Extended(clock.now + 70_000, cancel_requested=True)
    assert counts(queue).leased == 1
    assert ending(queue, number) is None


def test_an_ack_ends_it_as_done_all_the_same(queue):
    (number,) = sent(queue, "a")
    held = one(queue)
    queue.cancel((number,))
    acked(queue, held, "done")
    assert ending(queue, number).outcome == "done"
    assert (counts(queue).done, counts(queue).cancelled) == (1, 0)


COMES_BACK = {
    "defer": lambda m: m.defer(delay_seconds=5),
    "defer at once": lambda m: m.defer(state=b"s"),
    "fail": lambda m: m.fail("no"),
    "refuse": lambda m: m.fail("no", retry=False),
    "release": lambda m: m.release(),
}


@each("fifo", [False, True])
@each("how", COMES_BACK)
@pytest.mark.driving
def test_it_never_comes_back(door, clock, how, fifo):
    queue = door.fresh(fifo=fifo)
    (number,) = sent(queue, "a")
    held = one(queue)
    queue.cancel((number,))
    assert COMES_BACK[how](held) == Cancelled()
    assert COMES_BACK[how](held) == LeaseLost("gone")
    clock.advance(3600)
    assert is_empty(queue)
    assert ending(queue, number).outcome == "cancelled"
    assert counts(queue).cancelled == 1
    assert counts(grave_of(queue)).sent == 0


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("by", ["receive", "maintain"])
def test_a_lease_that_runs_out_does_not_bring_it_back(door, clock, by, last):
    queue = door.fresh(lease_seconds=5, max_attempts=1 if last else 3)
    (number,) = sent(queue, "a")
    held = one(queue)
    queue.cancel((number,))
    clock.advance(5)
    if by == "maintain":
        maintained(queue)
    assert is_empty(queue)
    assert held.ack() == LeaseLost("gone")
    assert ending(queue, number).outcome == "cancelled"
    assert counts(grave_of(queue)).sent == 0


@pytest.mark.parametrize("way", ["block", "drop", "dead_letter_channel"])
def test_a_cancelled_one_is_not_exhausted(door, way):
    queue = door.fresh(fifo=True, max_attempts=1, on_exhausted=way)
    (number, _) = sent(queue, "a", "b")
    held = one(queue)
    queue.cancel((number,))
    assert held.fail("last") == Cancelled()
    assert texts(one_by_one(queue)) == ["b"]


def test_a_wish_that_comes_after_the_lease_ends_it_at_once(queue):
    (number,) = sent(queue, "a")
    held = one(queue)
    assert held.release() == Released()
    assert queue.cancel((number,)) == (Cancelled(),)
    assert held.ack() == LeaseLost("gone")


@pytest.mark.parametrize("stage", ["waiting", "leased"])
def test_cancelling_frees_the_slot_and_the_place(queue, stage):
    queue.channel("c").set_policy(Policy(max_concurrency=1, max_size=2))
    first, _ = sent(queue, "a", "b", channel="c")
    if stage == "leased":
        held = one(queue)
    queue.cancel((first,))
    if stage == "leased":
        assert is_empty(queue), "a running one keeps its slot until it ends"
        held.release()
    sent(queue, "c", channel="c")
    assert texts(one_by_one(queue)) == ["b", "c"]


def test_a_cancelled_head_lets_its_fifo_channel_go_on(door):
    queue = door.fresh(fifo=True)
    head, _ = sent(queue, "head", "next", channel="c")
    one(queue).defer(delay_seconds=500)
    assert is_empty(queue)
    assert queue.cancel((head,)) == (Cancelled(),)
    assert texts(one_by_one(queue)) == ["next"]


def test_many_thousand_at_once(queue):
    numbers = queue.send_many([message("x") for _ in range(3_000)]).ids
    assert queue.cancel(numbers) == (Cancelled(),) * 3_000
    assert is_empty(queue)
    assert len(finished(queue, outcome="cancelled")) == 3_000


def test_acked_before_it_was_cancelled(queue):
    (number,) = sent(queue, "a")
    assert one(queue).ack() == Acked()
    assert queue.cancel((number,)) == (NotWaiting("gone"),)
    assert ending(queue, number).outcome == "done"


@pytest.mark.driving
def test_a_missing_queue_is_said(door):
    with pytest.raises(QueueNotFound):
        door.mq.queue("nosuch").cancel((1,))

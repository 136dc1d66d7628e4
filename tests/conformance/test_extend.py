"""extend: a heartbeat keeps a lease, and never makes one shorter."""

import pytest

from tests.conformance.steps import is_empty, one, sent, taken
from tests.support.each import each
from turnabout import Acked, Extended, LeaseLost, Note, Receipt, UsageError


def test_a_lease_runs_anew_from_now(queue, clock):
    got = taken(queue, "a", lease_seconds=10)
    clock.advance(9)
    assert got.extend(lease_seconds=10) == Extended(clock.now + 10_000)
    clock.advance(ms=9_999)
    assert is_empty(queue)
    clock.advance(ms=1)
    assert one(queue).attempt == 2


def test_a_lease_is_never_made_shorter(queue, clock):
    got = taken(queue, "a", lease_seconds=100)
    assert got.extend(lease_seconds=10) == Extended(clock.now + 100_000)
    clock.advance(99)
    assert is_empty(queue)


def test_the_queue_s_lease_holds_unless_one_is_named(door, clock):
    queue = door.fresh(lease_seconds=7)
    got = taken(queue, "a")
    clock.advance(3)
    assert got.extend() == Extended(clock.now + 7_000)


def test_after_the_lease_but_before_anybody_else_has_it_it_can_be_kept(queue, clock):
    got = taken(queue, "a", lease_seconds=1)
    clock.advance(5)
    assert got.extend(lease_seconds=10) == Extended(clock.now + 10_000)
    assert is_empty(queue)
    assert got.ack() == Acked()


@pytest.mark.driving
def test_a_lost_lease_cannot_be_kept(queue, clock):
    stale = taken(queue, "a", lease_seconds=1)
    clock.advance(1)
    fresh = one(queue, lease_seconds=10)
    assert stale.extend(lease_seconds=1000) == LeaseLost("leased")
    clock.advance(10)
    assert one(queue).attempt == 3
    assert fresh.extend() == LeaseLost("leased")


@pytest.mark.driving
def test_what_is_not_leased_cannot_be_kept(queue):
    got = taken(queue, "a")
    got.release()
    assert got.extend() == LeaseLost("ready")
    again = one(queue)
    again.ack()
    assert again.extend() == LeaseLost("gone")
    assert queue.extend([Receipt(10**9, 1)]) == (LeaseLost("gone"),)


@pytest.mark.driving
def test_many_at_once_answer_each_in_order(queue, clock):
    sent(queue, *"abc")
    a, b, c = queue.receive(3, lease_seconds=5)
    b.ack()
    assert queue.extend([c.receipt, b.receipt, a.receipt], lease_seconds=60) == (
        Extended(clock.now + 60_000),
        LeaseLost("gone"),
        Extended(clock.now + 60_000),
    )


@each("seconds", [0, -1, 7 * 86_400 + 1, float("nan"), True, "5"])
def test_a_wrong_lease_is_refused(queue, seconds):
    sent(queue, "a")
    with pytest.raises(UsageError):
        one(queue).extend(lease_seconds=seconds)


def test_what_a_worker_notes_is_shown_wherever_the_message_is(queue):
    queue.update(events="all", history_seconds=60)
    sent(queue, "a", "b")
    cursor = queue.events_cursor()
    first, second = queue.receive(2)
    assert [p.note for p in queue.peek()] == [None, None]
    first.extend(note="starts")
    assert [p.note for p in queue.peek()] == [Note("starts"), None]
    queue.extend([first, second], note=Note("page 12", 0.4))
    first.extend()
    assert [p.note for p in queue.peek()] == [Note("page 12", 0.4)] * 2, "it stays until the next"
    first.ack()
    second.fail("broken", retry=False)
    assert [e.note for e in queue.history().entries] == [Note("page 12", 0.4)] * 2
    assert [e.note for e in queue.wait([first.id, second.id])] == [Note("page 12", 0.4)] * 2
    told = [
        (e.id, e.note, e.attempt)
        for e in queue.events(after=cursor, idle_seconds=0)
        if e.kind == "noted"
    ]
    assert told == [
        (first.id, Note("starts"), 1),
        (first.id, Note("page 12", 0.4), 1),
        (second.id, Note("page 12", 0.4), 1),
    ]


def test_events_of_later_attempts_have_the_note(queue):
    queue.update(events="all")
    sent(queue, "a")
    cursor = queue.events_cursor()
    for text in ("half", None):
        (message,) = queue.receive()
        if text is not None:
            message.extend(note=text)
            message.fail("again", delay_seconds=0)
    message.ack()
    told = [(e.kind, e.note) for e in queue.events(after=cursor, idle_seconds=0)]
    half = Note("half")
    kinds = [("noted", half), ("failed", half), ("leased", half), ("done", half)]
    assert told == [("leased", None), *kinds]


def test_a_stale_receipt_notes_nothing(queue, clock):
    sent(queue, "a")
    stale = one(queue, lease_seconds=1)
    clock.advance(2)
    one(queue)
    assert stale.extend(note="late") == LeaseLost("leased")
    assert [p.note for p in queue.peek()] == [None]


@each("note", [("x" * 1025,), ("a\0b",), ("\ud800",), ("", 1.01), ("", -1), ("", True), (5,)])
def test_a_wrong_note_is_refused(queue, note):
    with pytest.raises(UsageError):
        Note(*note)

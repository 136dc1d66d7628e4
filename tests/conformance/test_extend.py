"""extend: a heartbeat keeps a lease, and makes one shorter only if it is told to: `exact`."""

import threading
import time

import pytest

from tests.conformance.steps import counts, grave_of, is_empty, one, sent, taken, texts
from tests.support.each import each
from turnabout import Acked, Extended, LeaseLost, Note, Policy, Receipt, UsageError
from turnabout.words import verbs as v
from turnabout.words.verb import Change


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


# --- exact ---


@each("seconds", [3, 30])
def test_exact_ends_the_lease_then_and_not_later(queue, clock, seconds):
    got = taken(queue, "a", lease_seconds=10)
    clock.advance(2)
    until = clock.now + seconds * 1000
    assert got.extend(lease_seconds=seconds, exact=True) == Extended(until)
    assert queue.peek()[0].due_at == until
    assert queue.receive().retry_after_seconds == seconds
    clock.advance(ms=seconds * 1000 - 1)
    assert is_empty(queue)
    clock.advance(ms=1)
    again = one(queue)
    assert (again.attempt, again.crashes) == (2, 1)
    assert got.extend(exact=True) == LeaseLost("leased")
    again.ack()


def test_exact_by_the_queue_s_lease_unless_one_is_named(door, clock):
    queue = door.fresh(lease_seconds=7)
    got = taken(queue, "a", lease_seconds=60)
    assert got.extend(exact=True) == Extended(clock.now + 7_000)
    assert got.extend(lease_seconds=1) == Extended(clock.now + 7_000), "not exact: as ever"


def test_zero_seconds_end_the_lease_now_as_if_it_had_run_out(queue, clock):
    queue.update(events="all")
    cursor = queue.events_cursor()
    got = taken(queue, "a", lease_seconds=60)
    assert got.extend(lease_seconds=0, exact=True) == Extended(clock.now)
    again = one(queue)
    assert (again.id, again.attempt, again.failures, again.crashes) == (got.id, 2, 0, 1)
    assert got.ack() == got.extend(lease_seconds=0, exact=True) == LeaseLost("leased")
    told = [(e.kind, e.attempt) for e in queue.events(after=cursor, idle_seconds=0)]
    assert told == [("created", 0), ("leased", 1), ("failed", 1), ("leased", 2)]


def test_until_another_has_it_the_receipt_of_what_ended_now_counts(queue, clock):
    got = taken(queue, "a", lease_seconds=60)
    got.extend(lease_seconds=0, exact=True)
    assert got.extend(lease_seconds=5) == Extended(clock.now + 5_000)
    assert is_empty(queue)
    got.extend(lease_seconds=0, exact=True)
    assert got.ack() == Acked()
    assert is_empty(queue)


def test_what_ended_now_for_the_last_time_is_dead_or_cancelled(door):
    queue = door.fresh(max_attempts=1)
    got = taken(queue, "a")
    got.extend(lease_seconds=0, exact=True)
    assert is_empty(queue)
    assert texts(grave_of(queue).receive()) == ["a"]
    unwanted = taken(queue, "b")
    queue.cancel([unwanted.id])
    assert unwanted.extend(lease_seconds=0, exact=True).cancel_requested
    assert is_empty(queue)
    assert counts(queue).cancelled == 1


def test_one_of_a_batch_ends_sooner_and_the_others_run_on(queue, clock):
    sent(queue, *"abc")
    a, b, c = queue.receive(3, lease_seconds=30)
    assert b.extend(lease_seconds=5, exact=True) == Extended(clock.now + 5_000)
    assert [p.due_at - clock.now for p in queue.peek()] == [30_000, 5_000, 30_000]
    assert b.extend(lease_seconds=10) == Extended(clock.now + 10_000)
    assert c.extend(lease_seconds=20, exact=True) == Extended(clock.now + 20_000)
    clock.advance(10)
    assert texts(queue.receive(3, lease_seconds=100)) == ["b"]
    assert queue.receive().retry_after_seconds == 10
    clock.advance(10)
    assert texts(queue.receive(3, lease_seconds=100)) == ["c"]
    assert (queue.stats().ran_out, queue.receive().retry_after_seconds) == (0, 10)
    assert a.extend(lease_seconds=15) == Extended(clock.now + 15_000)
    clock.advance(15)
    assert texts(queue.receive(3)) == ["a"]


def test_a_batch_that_was_shortened_in_parts_is_extended_as_a_whole(queue, clock):
    sent(queue, *"abc")
    a, b, c = queue.receive(3, lease_seconds=30)
    b.extend(lease_seconds=5, exact=True)
    c.extend(lease_seconds=60)
    now = clock.now
    assert queue.extend([a, b, c], lease_seconds=20) == (
        *(Extended(now + 30_000), Extended(now + 20_000), Extended(now + 60_000)),
    )
    assert queue.receive().retry_after_seconds <= 20
    assert queue.extend([a, b, c], lease_seconds=9, exact=True) == (Extended(now + 9_000),) * 3
    clock.advance(9)
    assert texts(queue.receive(3)) == ["a", "b", "c"]


def test_what_is_settled_of_a_shortened_batch_holds_up_nothing(queue, clock):
    sent(queue, *"ab")
    a, b = queue.receive(2, lease_seconds=30)
    a.extend(lease_seconds=1, exact=True)
    assert a.ack() == Acked()
    clock.advance(2)
    assert is_empty(queue)
    assert queue.receive().retry_after_seconds == 28
    clock.advance(28)
    assert one(queue).id == b.id


@each("settings", [{"fifo": True}, {"policy": Policy(max_concurrency=1)}])
def test_a_place_is_free_as_soon_as_the_lease_ends(door, clock, settings):
    queue = door.fresh(**settings)
    got = taken(queue, "a", channel="x", lease_seconds=60)
    sent(queue, "b", channel="x")
    assert queue.receive().retry_after_seconds == 60
    got.extend(lease_seconds=4, exact=True)
    assert queue.receive().retry_after_seconds == 4
    clock.advance(4)
    again = one(queue)
    assert again.text() == "a"
    again.extend(lease_seconds=0, exact=True)
    (third,) = queue.receive(2)
    assert (third.text(), third.attempt) == ("a", 3)


@pytest.mark.driving
def test_exact_extends_of_one_transaction_may_differ(door, queue, clock):
    sent(queue, *"abc")
    a, b, c = (m.receipt for m in queue.receive(3, lease_seconds=30))
    answers = door.mq.store.run_transaction(
        [
            v.Extend(queue.name, (a,), 5_000, exact=True),
            v.Extend(queue.name, (b, c), 6_000),
            v.Extend(queue.name, (c,), 0, Note("over"), exact=True),
        ]
    )
    until = [[one.lease_until - clock.now for one in answer] for answer in answers]
    assert until == [[5_000], [30_000, 30_000], [0]]
    assert texts(queue.receive(3)) == ["c"]
    assert queue.receive().retry_after_seconds == 5


@each("wrong", [{"lease_seconds": 0}, {"exact": 1}, {"exact": True, "lease_seconds": -0.001}])
def test_what_is_not_exact_is_refused(queue, wrong):
    got = taken(queue, "a")
    with pytest.raises(UsageError):
        got.extend(**wrong)
    with pytest.raises(UsageError):
        v.Extend(queue.name, (got.receipt,), 0)
    got.ack()


def test_receivers_that_wait_are_notified_of_an_exact_end_only():
    receipts = (Receipt(1, 1),)
    assert v.Extend("q", receipts, 5_000, exact=True).to_notify() == Change.READY
    assert v.Extend("q", receipts, 5_000).to_notify() == Change.NOTHING
    assert v.Extend("q", (), 5_000, exact=True).to_notify() == Change.NOTHING


@pytest.mark.real_time
@pytest.mark.needs("sharing")
@each("seconds", [0, 0.4])
def test_a_receive_that_waits_finds_what_ends_sooner(door, seconds):
    """In a FIFO channel, from another connection."""
    name = door.name_of_a_queue()
    with door.open(real_time=True) as mq:
        queue = mq.queue(name)
        queue.create(fifo=True)
        got = taken(queue, "a", lease_seconds=60)

        def shorten():
            time.sleep(0.3)
            with door.open(real_time=True) as other:
                other.queue(name).extend([got], lease_seconds=seconds, exact=True)

        thread = threading.Thread(target=shorten)
        began = time.monotonic()
        thread.start()
        batch = queue.receive(wait_seconds=20)
        took = time.monotonic() - began
        thread.join()
    assert [m.attempt for m in batch] == [2]
    assert 0.3 + seconds <= took < 10


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

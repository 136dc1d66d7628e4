"""fail and lost leases: back-off, exhaustion, and the dead-letter queue."""

import pytest

from tests.conformance.steps import counts, is_empty, one, sent, taken
from turnabout import (
    Acked,
    AttemptError,
    Dead,
    Failure,
    LeaseLost,
    Origin,
    Receipt,
    Retrying,
    UsageError,
)
from turnabout.words.workers import this_process


def waits(queue, clock, attempts):
    """Fail so often, and how long each retry was put off, in milliseconds."""
    put_off = []
    for _ in range(attempts):
        outcome = one(queue).fail("no")
        assert isinstance(outcome, Retrying)
        put_off.append(outcome.due_at - clock.now)
        clock.now = outcome.due_at
    return put_off


def test_a_failed_message_comes_back_at_its_millisecond_and_is_charged(queue, clock):
    first = taken(queue, "a")
    assert first.fail("boom") == Retrying(clock.now + 1_000)
    assert counts(queue).scheduled == 1
    assert queue.peek()[0].error == "boom"
    clock.advance(ms=999)
    assert is_empty(queue)
    clock.advance(ms=1)
    again = one(queue)
    assert (again.id, again.attempt, again.failures, again.crashes) == (first.id, 2, 1, 0)


def test_the_back_off_doubles_up_to_its_longest(door, clock):
    queue = door.fresh(
        backoff_seconds=0.5, backoff_max_seconds=5, backoff_jitter=0.0, max_attempts=None
    )
    sent(queue, "a")
    assert waits(queue, clock, 6) == [500, 1_000, 2_000, 4_000, 5_000, 5_000]


def test_lost_leases_count_for_the_back_off(door, clock):
    queue = door.fresh(backoff_seconds=1, backoff_jitter=0.0, lease_seconds=1)
    taken(queue, "a")
    clock.advance(1)
    assert one(queue).fail() == Retrying(clock.now + 2_000)


def test_a_back_off_after_very_many_failures_stays_at_its_longest(door, clock):
    queue = door.fresh(
        backoff_seconds=1, backoff_max_seconds=60, backoff_jitter=0.0, max_attempts=None
    )
    sent(queue, "a")
    assert waits(queue, clock, 80)[-1] == 60_000


def test_no_back_off_is_a_retry_at_once(door, clock):
    queue = door.fresh(backoff_seconds=0)
    assert taken(queue, "a").fail() == Retrying(clock.now)
    assert one(queue).failures == 1


def test_jitter_shortens_the_wait_and_spreads(door, clock):
    queue = door.fresh(backoff_seconds=10, backoff_jitter=0.5)
    sent(queue, *(str(n) for n in range(40)))
    put_off = [m.fail().due_at - clock.now for m in queue.receive(40)]
    assert all(5_000 <= wait <= 10_000 for wait in put_off), put_off
    assert len(set(put_off)) > 10


def test_jitter_is_drawn_for_each_message_of_a_batch(door, clock):
    queue = door.fresh(backoff_seconds=10, backoff_jitter=1.0)
    sent(queue, *(str(n) for n in range(40)))
    outcomes = queue.fail([Failure(m.receipt) for m in queue.receive(40)])
    put_off = [outcome.due_at - clock.now for outcome in outcomes]
    assert all(0 <= wait <= 10_000 for wait in put_off)
    assert len(set(put_off)) > 10


def test_a_named_delay_goes_over_the_back_off(queue, clock):
    assert taken(queue, "a").fail(delay_seconds=77) == Retrying(clock.now + 77_000)
    clock.advance(77)
    assert one(queue).fail(delay_seconds=0) == Retrying(clock.now)
    assert one(queue).failures == 2


# --- the end ---


@pytest.mark.driving
def test_the_last_failed_attempt_is_the_end(door, clock):
    queue = door.fresh(max_attempts=3, backoff_seconds=0)
    dead = door.mq.queue(f"{queue.name}-dead")
    (sent_id,) = sent(
        queue, "a", channel="c", priority=4, headers={"h": "v"}, content_type="text/x"
    )
    assert isinstance(one(queue).fail("first"), Retrying)
    assert isinstance(one(queue).fail("second"), Retrying)
    clock.advance(5)
    last = one(queue)
    assert last.fail("third") == Dead(dead.name)
    assert is_empty(queue)
    stats = counts(queue)
    assert (stats.dead, stats.sent, stats.done) == (1, 1, 0)
    assert counts(dead).ready == counts(dead).sent == 1
    (there,) = dead.peek()
    assert (there.id, there.channel, there.attempt) == (sent_id, "c", 3)
    assert (there.payload, there.content_type, dict(there.headers)) == (b"a", "text/x", {"h": "v"})
    assert (there.failures, there.crashes, there.state) == (0, 0, "ready")
    origin = there.origin
    assert (origin.queue, origin.reason, origin.failures) == (queue.name, "attempts", 3)
    assert (origin.crashes, origin.died_at) == (0, clock.now)
    assert (origin.first_error, origin.last_error) == ("first", "third")
    assert [(e.attempt, e.error) for e in origin.errors] == [
        (1, "first"),
        (2, "second"),
        (3, "third"),
    ]
    assert [clock.now - e.at for e in origin.errors] == [5_000, 5_000, 0]


def test_of_many_attempts_the_first_error_is_kept_and_the_last_nine(door, clock):
    queue = door.fresh(max_attempts=None, backoff_seconds=0)
    sent(queue, "a")
    for n in range(1, 13):
        one(queue).fail(f"no {n}")
    (message,) = queue.peek()
    assert [e.attempt for e in message.errors] == [1, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    assert [e.error for e in message.errors] == [f"no {e.attempt}" for e in message.errors]
    assert message.error == "no 12"


def test_a_dead_message_is_received_and_acked_in_its_queue(door, clock):
    queue = door.fresh(max_attempts=1)
    dead = door.mq.queue(f"{queue.name}-dead")
    old = taken(queue, "a")
    old.fail("no")
    (story,) = [peeked.origin for peeked in dead.peek()]
    got = one(dead)
    assert (got.id, got.attempt) == (old.id, 2)
    assert (
        got.origin
        == story
        == Origin(
            queue.name,
            "attempts",
            1,
            0,
            clock.now,
            "no",
            "no",
            0,
            (AttemptError(1, clock.now, "no", clock.now, this_process()),),
        )
    )
    assert old.origin is None
    assert old.ack() == LeaseLost("gone")
    assert dead.ack([old.receipt]) == (LeaseLost("leased"),)
    assert queue.ack([got.receipt]) == (LeaseLost("gone"),)
    assert got.ack() == Acked()
    assert counts(dead).done == 1
    assert counts(queue).dead == 1


def test_a_dead_message_never_dies_of_attempts_again(door):
    queue = door.fresh(max_attempts=1)
    dead = door.mq.queue(f"{queue.name}-dead")
    taken(queue, "a").fail()
    for attempt in range(2, 12):
        got = one(dead)
        assert got.attempt == attempt
        assert isinstance(got.fail(delay_seconds=0), Retrying)
    assert one(dead).fail(retry=False) == Dead(None)
    assert counts(dead).dead == 1


def test_no_retry_is_the_end_at_once(door):
    queue = door.fresh()
    assert taken(queue, "a").fail("bad input", retry=False) == Dead(f"{queue.name}-dead")
    (there,) = door.mq.queue(f"{queue.name}-dead").peek()
    assert there.origin.reason == "refused"
    assert there.origin.last_error == "bad input"
    assert counts(queue).dead == 1


def test_lost_leases_are_charged_until_the_end(door, clock):
    queue = door.fresh(max_attempts=2, lease_seconds=1)
    taken(queue, "a")
    clock.advance(1)
    assert one(queue).crashes == 1
    clock.advance(1)
    assert is_empty(queue)
    assert counts(queue).dead == 1
    (there,) = door.mq.queue(f"{queue.name}-dead").peek()
    assert (there.origin.reason, there.origin.crashes) == ("crashes", 2)
    assert there.attempt == 2


def test_failures_and_lost_leases_are_counted_together(door, clock):
    queue = door.fresh(max_attempts=2, lease_seconds=1, backoff_seconds=0)
    taken(queue, "a")
    clock.advance(1)
    assert one(queue).fail("tired") == Dead(f"{queue.name}-dead")
    (there,) = door.mq.queue(f"{queue.name}-dead").peek()
    assert (there.origin.reason, there.origin.failures, there.origin.crashes) == ("attempts", 1, 1)
    assert there.origin.last_error == "tired"


def test_only_charged_attempts_count(door, clock):
    queue = door.fresh(max_attempts=2, backoff_seconds=0)
    sent(queue, "a")
    for _ in range(3):
        one(queue).defer()
        one(queue).release()
    assert isinstance(one(queue).fail(), Retrying)
    assert isinstance(one(queue).fail(), Dead)


def test_without_a_limit_nothing_dies(door):
    queue = door.fresh(max_attempts=None, backoff_seconds=0)
    sent(queue, "a")
    for _ in range(30):
        assert isinstance(one(queue).fail(), Retrying)


def test_fewer_attempts_on_a_live_queue_hold_at_the_next_charge(door):
    queue = door.fresh(max_attempts=10, backoff_seconds=0)
    sent(queue, "a")
    for _ in range(4):
        one(queue).fail()
    queue.update(max_attempts=2)
    got = one(queue)
    assert isinstance(got.fail(), Dead)
    queue.update(max_attempts=1)
    sent(queue, "b")
    assert isinstance(one(queue).fail(), Dead)


def test_a_dead_letter_queue_by_name_is_shared(door):
    grave = door.name_of_a_queue()
    one_queue = door.fresh(dead_letter=grave, max_attempts=1)
    two = door.fresh(dead_letter=grave, max_attempts=1)
    for queue in (one_queue, two):
        assert taken(queue, queue.name).fail() == Dead(grave)
    peeked = door.mq.queue(grave).peek()
    assert [m.origin.queue for m in peeked] == [one_queue.name, two.name]


# --- who may fail what ---


@pytest.mark.driving
def test_a_stale_receipt_fails_nothing(queue, clock):
    stale = taken(queue, "a", lease_seconds=1)
    clock.advance(1)
    fresh = one(queue)
    assert stale.fail("stale") == LeaseLost("leased")
    assert stale.fail("stale", retry=False) == LeaseLost("leased")
    fresh.release()
    got = one(queue)
    assert (got.failures, got.crashes) == (0, 1)
    assert queue.fail([Failure(Receipt(10**9, 1))]) == (LeaseLost("gone"),)


def test_after_the_lease_but_before_anybody_else_has_it_a_failure_counts(queue, clock):
    late = taken(queue, "a", lease_seconds=1)
    clock.advance(5)
    assert isinstance(late.fail("late"), Retrying)
    clock.advance(1)
    got = one(queue)
    assert (got.failures, got.crashes) == (1, 0)


@pytest.mark.driving
def test_many_at_once_answer_each_in_order(door, clock):
    queue = door.fresh(backoff_jitter=0.0)
    sent(queue, "a", "b", "c")
    a, b, c = queue.receive(3)
    outcomes = queue.fail(
        [
            Failure(c.receipt, "c", retry=False),
            Failure(Receipt(10**9, 1)),
            Failure(a.receipt, "a", delay_ms=5),
            Failure(b.receipt, "b"),
        ]
    )
    assert outcomes == (
        Dead(f"{queue.name}-dead"),
        LeaseLost("gone"),
        Retrying(clock.now + 5),
        Retrying(clock.now + 1_000),
    )


# --- errors' texts ---


def test_a_long_error_keeps_its_ends(queue):
    taken(queue, "a").fail("begin" + "x" * 100_000 + "end")
    error = queue.peek()[0].error
    assert len(error) <= 16 * 1024
    assert error.startswith("begin")
    assert error.endswith("end")


@pytest.mark.driving
def test_any_error_text_can_be_kept(queue):
    taken(queue, "a").fail("NUL \x00 lone \ud800 ok ñ")
    error = queue.peek()[0].error
    assert error.startswith("NUL ")
    assert error.endswith(" ok ñ")


@pytest.mark.parametrize(
    "options",
    [{"error": None}, {"error": b"x"}, {"retry": 1}, {"retry": None}, {"delay_seconds": -1}],
)
def test_wrong_arguments_change_nothing(queue, options):
    got = taken(queue, "a")
    with pytest.raises(UsageError):
        got.fail(**options)
    assert counts(queue).leased == 1


@pytest.mark.parametrize("fields", [{"delay_ms": -1}, {"error": 5}, {"retry": "no"}])
def test_a_wrong_failure_is_refused(queue, fields):
    got = taken(queue, "a")
    with pytest.raises(UsageError):
        queue.fail([Failure(got.receipt, **fields)])
    assert counts(queue).leased == 1

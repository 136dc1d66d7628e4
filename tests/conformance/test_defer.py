"""defer and release: back for later or at once, with state, and never charged."""

import pytest

from tests.conformance.steps import counts, is_empty, one, sent, taken, texts
from tests.support.each import each
from turnabout import Deferral, Deferred, LeaseLost, Receipt, Released, UsageError


def test_a_deferred_message_comes_back_at_its_millisecond(queue, clock):
    first = taken(queue, "a")
    assert first.defer(delay_seconds=2) == Deferred(clock.now + 2_000)
    assert counts(queue).scheduled == 1
    clock.advance(ms=1_999)
    assert is_empty(queue)
    clock.advance(ms=1)
    again = one(queue)
    assert (again.id, again.attempt) == (first.id, 2)
    assert (again.failures, again.crashes) == (0, 0)


def test_without_a_delay_it_is_back_at_once(queue, clock):
    assert taken(queue, "a").defer() == Deferred(clock.now)
    assert counts(queue).ready == 1
    assert one(queue).attempt == 2


@pytest.mark.driving
def test_state_is_kept_replaced_and_emptied(queue):
    taken(queue, "a").defer(state=b"page 2\x00\xff")
    assert one_again(queue).state == b"page 2\x00\xff"
    assert one_again(queue).state == b"page 2\x00\xff"
    got = one(queue)
    got.defer(state=b"page 3")
    got = one(queue)
    assert got.state == b"page 3"
    assert queue.peek()[0].saved_state == b"page 3"
    got.defer(state=b"")
    assert one(queue).state in (b"", None)


def one_again(queue):
    got = one(queue)
    got.defer()
    return got


def test_state_survives_failures_releases_and_lost_leases(queue, clock):
    taken(queue, "a").defer(state=b"s")
    one(queue).fail(delay_seconds=0)
    one(queue).release()
    one(queue, lease_seconds=1)
    clock.advance(1)
    got = one(queue)
    assert (got.state, got.attempt, got.failures, got.crashes) == (b"s", 5, 1, 1)


def test_deferring_is_never_charged(door):
    queue = door.fresh(max_attempts=1)
    sent(queue, "a")
    for attempt in range(1, 8):
        got = one(queue)
        assert (got.attempt, got.failures, got.crashes) == (attempt, 0, 0)
        assert isinstance(got.defer(), Deferred)


@pytest.mark.driving
def test_a_stale_receipt_defers_nothing(queue, clock):
    stale = taken(queue, "a", lease_seconds=1)
    clock.advance(1)
    fresh = one(queue)
    assert stale.defer(state=b"stale") == LeaseLost("leased")
    fresh.defer()
    assert one(queue).state is None
    assert queue.defer([Deferral(Receipt(10**9, 1))]) == (LeaseLost("gone"),)


def test_after_the_lease_but_before_anybody_else_has_it_a_defer_counts(queue, clock):
    late = taken(queue, "a", lease_seconds=1)
    clock.advance(5)
    assert late.defer(state=b"late") == Deferred(clock.now)
    got = one(queue)
    assert (got.state, got.crashes) == (b"late", 0)


@pytest.mark.driving
def test_many_at_once_each_with_its_own(queue, clock):
    sent(queue, "a", "b", "c")
    a, b, c = queue.receive(3)
    outcomes = queue.defer(
        [
            Deferral(c.receipt, 3_000, b"c"),
            Deferral(Receipt(c.id, 9)),
            Deferral(a.receipt, 0, b"a"),
            Deferral(b.receipt, 1_000),
        ]
    )
    assert outcomes[0] == Deferred(clock.now + 3_000)
    assert isinstance(outcomes[1], LeaseLost)
    assert outcomes[2:] == (Deferred(clock.now), Deferred(clock.now + 1_000))
    clock.advance(3)
    assert [(m.text(), m.state) for m in queue.receive(3)] == [
        ("a", b"a"),
        ("b", None),
        ("c", b"c"),
    ]


@each("size", [1024 * 1024])
def test_state_at_and_over_its_limit(queue, size):
    taken(queue, "a").defer(state=b"s" * size)
    got = one(queue)
    assert got.state == b"s" * size
    with pytest.raises(UsageError):
        got.defer(state=b"s" * (size + 1))


@pytest.mark.parametrize(
    "options",
    [
        {"state": "text"},
        {"state": 1},
        {"delay_seconds": -1},
        {"delay_seconds": True},
        {"delay_seconds": float("nan")},
        {"delay_seconds": None},
        {"delay_seconds": 366 * 86_400 + 1},
    ],
)
def test_wrong_arguments_change_nothing(queue, options):
    got = taken(queue, "a")
    with pytest.raises(UsageError):
        got.defer(**options)
    assert counts(queue).leased == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"delay_ms": -1},
        {"delay_ms": 1.5},
        {"delay_ms": True},
        {"state": "text"},
        {"delay_ms": 2**60},
    ],
)
def test_a_wrong_deferral_is_refused(queue, fields):
    got = taken(queue, "a")
    with pytest.raises(UsageError):
        queue.defer([Deferral(got.receipt, **fields)])
    assert counts(queue).leased == 1


# --- release ---


def test_a_released_message_is_back_at_once_and_uncharged(door):
    queue = door.fresh(max_attempts=1)
    sent(queue, "a", "b")
    for attempt in range(1, 5):
        (got,) = queue.receive(1)
        assert (got.text(), got.attempt, got.failures, got.crashes) == ("a", attempt, 0, 0)
        assert got.release() == Released()
        assert counts(queue).ready == 2


@pytest.mark.driving
def test_a_stale_receipt_releases_nothing(queue, clock):
    stale = taken(queue, "a", lease_seconds=1)
    clock.advance(1)
    fresh = one(queue)
    assert stale.release() == LeaseLost("leased")
    assert is_empty(queue)
    assert fresh.release() == Released()
    assert fresh.release() == LeaseLost("ready")
    assert queue.release([Receipt(10**9, 1)]) == (LeaseLost("gone"),)


def test_a_whole_batch_is_given_back(queue):
    sent(queue, *"abc")
    batch = queue.receive(3)
    assert queue.release([m.receipt for m in batch]) == (Released(),) * 3
    assert texts(queue.receive(3)) == ["a", "b", "c"]

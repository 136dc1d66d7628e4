"""`max_deliveries`: a message that is given back for ever, uncharged, ends."""

import pytest

from tests.conformance.steps import grave_of, one, sent, taken
from tests.support.each import each
from turnabout import Dead, LeaseLost
from turnabout.words.outcomes import Blocked


@pytest.mark.driving
@each("how", ["release", "defer", "fail", "run out"])
def test_the_last_delivery_that_is_given_back_is_dead(door, clock, how):
    queue = door.fresh(max_deliveries=3, max_attempts=None, backoff_seconds=0)
    sent(queue, "a")
    for number in range(3):
        got = one(queue, lease_seconds=5)
        if how == "run out":
            clock.advance(5)
            continue
        outcome = getattr(got, how)()
        assert isinstance(outcome, Dead) == (number == 2)
    assert not queue.receive()
    assert got.release() == LeaseLost("gone")
    (dead,) = grave_of(queue).peek()
    assert (dead.attempt, dead.origin.reason) == (3, "deliveries")
    assert queue.stats().dead == 1


def test_attempts_that_are_used_up_come_first(door):
    queue = door.fresh(max_deliveries=2, max_attempts=2, backoff_seconds=0)
    taken(queue, "a").fail()
    one(queue).fail()
    (dead,) = grave_of(queue).peek()
    assert dead.origin.reason == "attempts"


@pytest.mark.driving
def test_what_it_was_delivered_elsewhere_or_before_a_retry_does_not_count(door):
    queue = door.fresh(max_deliveries=2, fifo=True, on_exhausted="block")
    (id_,) = sent(queue, "a")
    one(queue).release()
    assert one(queue).defer(state=b"s") == Blocked()
    assert not queue.receive()
    queue.retry([id_])
    got = one(queue)
    assert (got.attempt, got.state) == (3, b"s")
    got.release()
    assert one(queue).release() == Blocked()

"""In which queues something is due: a look at all of them finds those that `Maintain` acts on."""

import pytest

from tests.conformance.steps import (
    acked,
    counts,
    do,
    finished,
    grave_of,
    maintained,
    one,
    run,
    sent,
    taken,
)
from turnabout.words.administration import QueuesDue
from turnabout.words.verbs import RedriveStart

pytestmark = [pytest.mark.needs("administration"), pytest.mark.driving]
MANY = 1_000_000
DAY = 86_400


def is_due(queue, *, old=False):
    """Whether a look finds the queue; the other kind of look has other reasons."""
    assert queue.name not in run(queue, QueuesDue(not old, MANY))
    return queue.name in run(queue, QueuesDue(old, MANY))


def wait(queue):
    sent(queue, "a", delay_seconds=5)


def lease(queue):
    taken(queue, "a", lease_seconds=5)


def die_out(queue):
    sent(queue, "a", ttl_seconds=5)


def die_out_later(queue):
    sent(queue, "a", delay_seconds=9, ttl_seconds=5)


@pytest.mark.parametrize("begin", [wait, lease, die_out, die_out_later])
def test_a_timer_makes_its_queue_due_until_somebody_maintains_it(door, clock, begin):
    queue = door.fresh()
    begin(queue)
    maintained(queue)
    clock.advance(ms=4_999)
    assert not is_due(queue)
    clock.advance(ms=1)
    assert is_due(queue)
    maintained(queue)
    assert not is_due(queue)
    assert counts(queue).ready + counts(queue).expired == 1


def test_a_redrive_is_due_until_it_ends(door):
    queue = door.fresh()
    taken(queue, "a").fail("no", retry=False)
    grave = grave_of(queue)
    maintained(grave)
    do(grave, RedriveStart)
    assert is_due(grave)
    for _ in range(20):  # a step leaves what somebody else holds just now
        maintained(grave)
    assert not is_due(grave)


def done(queue):
    acked(queue, taken(queue, "a"))


def dead(queue):
    taken(queue, "a").fail("no", retry=False)


def noted(queue):
    sent(queue, "a")


def keyed(queue):
    sent(queue, "a", dedup_key="k")


OLD = [
    (done, {"history_seconds": 3 * DAY}, 3 * DAY - 1),
    (dead, {"history_seconds": 9 * DAY, "history_failed_seconds": DAY}, DAY - 1),
    (noted, {"events": "all"}, DAY - 1),
    (keyed, {"dedup_window_seconds": 5}, 4),
]


@pytest.mark.parametrize(("begin", "settings", "seconds"), OLD)
def test_rows_make_their_queue_due_when_they_are_old(door, clock, begin, settings, seconds):
    door.fresh(history_seconds=900 * DAY)  # days of history are not dropped before
    queue = door.fresh(**settings)
    begin(queue)
    maintained(queue)
    clock.advance(seconds)
    assert not is_due(queue, old=True)
    clock.advance(65)  # a minute is given to windows somewhere
    assert is_due(queue, old=True)
    maintained(queue)
    assert not is_due(queue, old=True)
    assert not settings.get("history_failed_seconds") or not finished(queue)


def test_a_key_is_old_when_its_message_has_left(door):
    queue = door.fresh(dedup_mode="until_finished")
    sent(queue, "a", dedup_key="k")
    maintained(queue)
    assert not is_due(queue, old=True)
    one(queue).fail("no", retry=False)
    assert is_due(queue, old=True)
    maintained(queue, 20)
    assert not is_due(queue, old=True)


def test_a_look_is_bounded_and_chooses_by_chance(door, clock):
    queues = [door.fresh() for _ in range(2)]
    for queue in queues:
        wait(queue)
    clock.advance(5)
    seen = [run(queues[0], QueuesDue(limit=1)) for _ in range(100)]
    assert {len(names) for names in seen} == {1}
    assert len({*seen}) > 1

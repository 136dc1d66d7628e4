"""clear: rows of history removed by outcome, the oldest first, with a limit below and above."""

import pytest

from tests.conformance.steps import acked, counts, finished, grave_of, one, sent, taken
from turnabout import Purged, QueueNotFound, message
from turnabout.words.outcomes import Cleared


def aged(queue, clock):
    """Three that are done, two that died, one that was purged, each a second after the last."""
    for outcome in ("done", "dead", "done", "dead", "done"):
        message = taken(queue, outcome)
        if outcome == "done":
            acked(queue, message)
        else:
            message.fail("no", retry=False)
        clock.advance(1)
    sent(queue, "gone")
    assert queue.purge() == Purged(1)


def left(queue):
    """The outcomes that are left, the oldest first."""
    return [row.outcome for row in finished(queue)][::-1]


ALL = ["done", "dead", "done", "dead", "done", "cancelled"]


@pytest.mark.parametrize(
    ("asked", "removed", "rest"),
    [
        (("all", None), 6, []),
        (("done", None), 3, ["dead", "dead", "cancelled"]),
        (("failed", None), 3, ["done", "done", "done"]),
        (("all", 4), 4, ALL[4:]),
        (("all", 6), 6, []),
        (("all", 7), 6, []),
        (("all", 1_000_000), 6, []),
        (("done", 1), 1, ALL[1:]),
        (("done", 2), 2, ["dead", "dead", "done", "cancelled"]),
        (("done", 3), 3, ["dead", "dead", "cancelled"]),
        (("done", 50), 3, ["dead", "dead", "cancelled"]),
        (("failed", 2), 2, ["done", "done", "done", "cancelled"]),
        (("failed", 99), 3, ["done", "done", "done"]),
    ],
)
def test_the_oldest_of_these_are_removed_up_to_a_limit(queue, clock, asked, removed, rest):
    aged(queue, clock)
    sent(queue, "unfinished")
    before = counts(queue)
    assert queue.clear(asked[0], limit=asked[1]) == Cleared(removed)
    assert left(queue) == rest
    assert counts(queue) == before, "counts and unfinished messages are left alone"


@pytest.mark.parametrize(
    ("asked", "removed", "rest"), [("done", 1, ["dead"]), ("failed", 1, ["done"]), ("all", 2, [])]
)
def test_a_message_that_ended_twice_in_one_millisecond_has_two_rows(queue, asked, removed, rest):
    """It died, was sent back and was done while the clock stood still."""
    (number,) = sent(queue, "a")
    one(queue).fail("no", retry=False)
    assert grave_of(queue).redrive().moved == 1
    acked(queue, one(queue))
    assert [row.id for row in finished(queue)] == [number, number]
    assert queue.clear(asked, limit=removed) == Cleared(removed)
    assert left(queue) == rest


def test_clearing_nothing_and_clearing_again(queue, clock):
    assert queue.clear("all") == Cleared(0)
    aged(queue, clock)
    assert queue.clear("failed") == Cleared(3)
    assert queue.clear("failed") == Cleared(0)
    assert queue.clear("all", limit=5) == Cleared(3)


@pytest.mark.driving
def test_another_queue_keeps_its_own(door, clock):
    queue, other = door.fresh(), door.fresh()
    aged(queue, clock)
    aged(other, clock)
    queue.clear("all")
    assert left(other) == ALL
    with pytest.raises(QueueNotFound):
        door.mq.queue("nosuch").clear("all")


def test_many_are_cleared_in_one_call(queue):
    for _ in range(3):
        queue.send_many([message("x")] * 400)
        queue.ack([m.receipt for m in queue.receive(400)])
    assert queue.clear("done", limit=1_100) == Cleared(1_100)
    assert queue.clear("done") == Cleared(100)

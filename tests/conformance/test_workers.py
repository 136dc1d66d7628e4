"""Workers report themselves: who is there, and what they hold; and failures say who failed."""

import pytest

from turnabout import LeasedMessage, QueueNotFound, UsageError, WorkerEntry, WorkerState
from turnabout.words.entities import Failure
from turnabout.words.verbs import Fail, WorkerReport
from turnabout.words.workers import MESSAGES_MAX, entries_of, kept_state, this_process

STATE = WorkerState("web-1", "turnabout 1, Python 3", 5_000, 4, 17, 2, (LeasedMessage(3, 1_500),))


def report(queue, worker, state=STATE):
    queue._store.run(WorkerReport(queue.name, worker, state))


@pytest.mark.driving
def test_a_worker_is_listed_until_it_ends(queue, clock):
    queue.create()
    assert queue.workers() == ()
    report(queue, "b")
    clock.advance(10)
    report(queue, "a")
    report(queue, "b", WorkerState("web-1", "v", 15_000, 4, 20, 2))
    a, b = queue.workers()
    assert a == WorkerEntry("a", clock(), STATE)
    assert (b.worker, b.seen_at, b.state.handled, b.state.messages) == ("b", clock(), 20, ())
    report(queue, "a", None)
    report(queue, "nobody", None)
    assert [one.worker for one in queue.workers()] == ["b"]


def test_who_is_not_heard_of_is_not_listed(queue, clock):
    queue.create()
    report(queue, "killed")
    clock.advance(59)
    report(queue, "alive")
    assert len(queue.workers()) == 2
    clock.advance(2)
    assert [one.worker for one in queue.workers()] == ["alive"]


def test_a_queue_knows_its_own_workers_only(door, queue):
    queue.create()
    other = door.fresh()
    other.create()
    report(queue, "a")
    assert other.workers() == ()
    other.delete()
    with pytest.raises(QueueNotFound):
        other.workers()
    with pytest.raises(QueueNotFound):
        report(other, "a")


def test_reports_are_bounded(queue):
    queue.create()
    for number in range(1_003):
        report(queue, f"w{number}", WorkerState("h", "v", 0, 1, 0, 0))
    assert len(queue.workers()) == 1_000
    report(queue, "w5")
    assert next(one for one in queue.workers() if one.worker == "w5").state == STATE


@pytest.mark.parametrize("name", ["", "x" * 256, "a\0b", "\ud800"])
def test_names_are_checked(name):
    with pytest.raises(UsageError):
        WorkerState(name, "v", 0, 1, 0, 0)


def test_a_report_names_a_hundred_messages_at_most():
    held = tuple(LeasedMessage(n, 0) for n in range(1, MESSAGES_MAX + 2))
    WorkerState("h", "v", 0, 1, 0, 0, held[1:])
    with pytest.raises(UsageError):
        WorkerState("h", "v", 0, 1, 0, 0, held)


def test_what_was_written_past_us_hides_nobody():
    wrong = [("a", 1, "{"), ("b", 1, '{"host": 1}'), ("c", 1, kept_state(STATE)), ("d", 1, "[]")]
    assert entries_of(wrong) == (WorkerEntry("c", 1, STATE),)
    assert kept_state(None) is None


@pytest.mark.driving
def test_a_failed_attempt_says_when_it_began_and_who_failed_it(queue, clock):
    queue.create(max_attempts=3)
    queue.send("x")
    began = clock()
    (m,) = queue.receive()
    clock.advance(7)
    queue._store.run(Fail(queue.name, (Failure(m.receipt, "lost", worker="web-1:12"),)))
    clock.advance(100)
    (m,) = queue.receive()
    m.fail("by a person")
    (one,) = queue.peek()
    first, second = one.errors
    assert (first.leased_at, first.at, first.worker) == (began, began + 7_000, "web-1:12")
    assert (second.leased_at, second.worker) == (clock(), this_process())

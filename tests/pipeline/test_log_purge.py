"""Removing the log's oldest rows: up to a position, and an age, and no further."""

import pytest

from tests.conformance.steps import counts, ending, finished, sent
from turnabout.pipeline import verbs as p

EVER = 10**15


@pytest.fixture
def ages(pipe, clock):
    """Nine rows of two queues that finished at three times, and where each three end."""
    pipe.run(p.LogPurge(pipe.end(), EVER, 1_000_000))
    queues, numbers, times, ends = [pipe.queue(), pipe.queue()], [], [], []
    for _ in range(3):
        clock.advance(10)
        for n in range(3):
            queue = queues[n % 2]
            numbers += sent(queue, "x")
            (held,) = queue.receive(1)
            held.ack()
        times.append(clock.now)
        ends.append(pipe.end())
    return queues, numbers, times, ends


def left(pipe):
    return sorted(row["message_id"] for row in pipe.log(p.START))


def test_up_to_a_position_and_no_further(pipe, ages):
    _, numbers, _, ends = ages
    assert pipe.run(p.LogPurge(ends[1], EVER)) == 6
    assert left(pipe) == sorted(numbers[6:])
    assert pipe.run(p.LogPurge(ends[1], EVER)) == 0
    assert pipe.run(p.LogLook()).floor == ends[1]
    assert pipe.next(ends[1]).messages == 3
    assert isinstance(pipe.next(ends[0]), p.LogLost)


def test_what_finished_later_stays(pipe, ages):
    _, numbers, times, ends = ages
    assert pipe.run(p.LogPurge(ends[2], times[1])) == 3, "before, not at"
    assert left(pipe) == sorted(numbers[3:])
    assert pipe.run(p.LogPurge(ends[2], times[1] + 1)) == 3
    assert left(pipe) == sorted(numbers[6:])


def test_the_start_is_up_to_nothing(pipe, ages):
    _, numbers, _, _ = ages
    assert pipe.run(p.LogPurge(p.START, EVER)) == 0
    assert left(pipe) == sorted(numbers)


@pytest.mark.parametrize("limit", [1, 2, 4, 9, 100])
def test_a_limit_takes_the_oldest_and_is_called_again(pipe, ages, limit):
    _, numbers, _, ends = ages
    gone, floors = [], []
    while more := pipe.run(p.LogPurge(ends[1], EVER, limit)):
        gone.append(more)
        floors.append(pipe.run(p.LogLook()).floor)
        assert len(left(pipe)) == 9 - sum(gone)
        assert isinstance(pipe.next(floors[-1]), p.LogRange)
    assert sum(gone) == 6
    assert max(gone) == min(limit, 6)
    assert left(pipe) == sorted(numbers[6:])


def test_a_dry_run_counts_all_and_removes_nothing(pipe, ages):
    _, numbers, times, ends = ages
    assert pipe.run(p.LogPurge(ends[1], EVER, 1, dry_run=True)) == 6
    assert pipe.run(p.LogPurge(ends[2], times[1], 1, dry_run=True)) == 3
    assert pipe.run(p.LogPurge(ends[2], EVER, dry_run=True)) == 9
    assert left(pipe) == sorted(numbers)
    assert pipe.next(ends[0]).messages == 6


def test_the_history_is_gone_and_the_counts_stay(pipe, ages):
    queues, numbers, _, ends = ages
    pipe.run(p.LogPurge(ends[2], EVER))
    assert all(finished(queue) == [] for queue in queues)
    assert sum(counts(queue).done for queue in queues) == 9
    answer = ending(queues[0], numbers[0])
    assert answer is not None
    assert answer.outcome == "unknown"


def test_an_end_that_is_older_than_the_floor_removes_nothing(pipe, ages):
    _, numbers, _, ends = ages
    pipe.run(p.LogPurge(ends[1], EVER))
    assert pipe.run(p.LogPurge(ends[0], EVER)) == 0
    assert left(pipe) == sorted(numbers[6:])
    assert pipe.run(p.LogLook()).floor == ends[1]

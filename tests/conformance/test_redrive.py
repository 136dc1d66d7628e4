"""redrive: dead messages go back, filtered, at a rate, resumable, and with a record of it."""

import pytest

from tests.conformance.steps import (
    acked,
    counts,
    do,
    ending,
    finished,
    grave_of,
    maintained,
    one,
    one_by_one,
    run,
    sent,
    texts,
)
from tests.support.each import each
from turnabout import Failure, NotWaiting, Origin, QueueNotFound, Retried, UsageError, message
from turnabout.words.records import RedriveFilter
from turnabout.words.verbs import RedriveCancel, RedriveList, RedriveStart, RedriveStep


@pytest.fixture
def queue(door):
    """A queue whose messages die of their first failure."""
    return door.fresh(max_attempts=1)


@pytest.fixture
def grave(queue):
    """Its dead-letter queue."""
    return grave_of(queue)


def bury(queue, *payloads, error="no", **options):
    """Send these and let them die; their ids."""
    numbers = sent(queue, *payloads, **options)
    for _ in numbers:
        one_of = queue.receive()[0]
        one_of.fail(error)
    return numbers


def stepped(grave, redrive, clock=None):
    """Step by step to the end, sleeping as told where there is a clock; how it ended."""
    for _ in range(100):
        if redrive.state != "running":
            return redrive
        if clock is not None and redrive.next_at is not None:
            clock.now = redrive.next_at
        redrive = run(grave, RedriveStep(redrive.id))
    raise AssertionError(f"never at its end: {redrive}")


def redriven(grave, **options):
    """Start a redrive and take it to its end."""
    return stepped(grave, do(grave, RedriveStart, **options))


def test_the_dead_go_back_to_where_they_died(queue, grave, clock):
    numbers = bury(queue, *"abc", channel="c", headers={"h": "v"})
    died_at = clock.now
    clock.advance(60)
    redrive = redriven(grave)
    assert (redrive.queue, redrive.target, redrive.state) == (grave.name, None, "done")
    assert (redrive.moved, redrive.skipped) == (3, 0)
    assert (redrive.created_at, redrive.finished_at) == (clock.now, clock.now)
    assert grave.peek() == ()
    (first, *_) = there = queue.peek()
    assert [p.id for p in there] == numbers
    assert (first.channel, dict(first.headers), first.attempt) == ("c", {"h": "v"}, 1)
    assert (first.failures, first.crashes, first.state) == (0, 0, "ready")
    errors = first.origin.errors
    assert first.origin == Origin(queue.name, "attempts", 1, 0, died_at, "no", "no", 1, errors)
    again = queue.receive(10)
    assert texts(again) == ["a", "b", "c"]
    assert {m.attempt for m in again} == {2}
    assert again[0].origin == first.origin


@pytest.mark.driving
def test_counts_add_up_when_messages_move(queue, grave):
    (number, _) = bury(queue, "a", "b")
    redriven(grave)
    assert (counts(queue).sent, counts(queue).dead, counts(queue).ready) == (4, 2, 2)
    assert (counts(grave).sent, counts(grave).ready) == (0, 0)
    assert finished(grave) == [], "to be moved is no ending"
    assert ending(grave, number).outcome == "unknown"
    assert ending(queue, number) is None
    for held in queue.receive(2):
        acked(queue, held, "at last")
    assert ending(queue, number).result.text() == "at last"
    assert [row.outcome for row in finished(queue) if row.id == number] == ["done", "dead"]


def test_a_redriven_message_that_dies_again_keeps_count(queue, grave):
    bury(queue, "a", error="first")
    for round_ in (1, 2, 3):
        assert redriven(grave).moved == 1
        assert one(queue).fail(f"again {round_}").queue == grave.name
        origin = grave.peek()[0].origin
        assert (origin.redrives, origin.last_error) == (round_, f"again {round_}")
    assert redriven(grave).skipped == 1, "redriven three times already"
    assert counts(grave).ready == 1
    assert redriven(grave, max_redrives=4).moved == 1


def test_the_loop_guard_is_what_the_redrive_says(queue, grave):
    bury(queue, "a")
    assert (redriven(grave, max_redrives=1).moved, counts(queue).ready) == (1, 1)
    one(queue).fail()
    ended = redriven(grave, max_redrives=1)
    assert (ended.moved, ended.skipped, ended.state) == (0, 1, "done")


# --- which ---


@pytest.mark.driving
def test_a_redrive_takes_what_its_filter_names(door, clock):
    def fresh():
        queue = door.fresh(max_attempts=1)
        began = clock.now
        first = bury(queue, "a", channel="x", error="timeout: 100%_")
        clock.advance(10)
        second = bury(queue, "b", channel="x", error="Refused")
        clock.advance(10)
        third = bury(queue, "c", channel="y", error="timeout: later")
        return began, queue, first + second + third

    cases = [
        ({}, "abc"),
        ({"channel": "x"}, "ab"),
        ({"channel": ""}, ""),
        ({"error": "timeout"}, "ac"),
        ({"error": "100%_"}, "a"),
        ({"error": "%"}, "a"),
        ({"error": "refused"}, ""),
        ({"died_from": 10_000}, "bc"),
        ({"died_from": 10_001}, "c"),
        ({"died_until": 10_000}, "a"),
        ({"died_until": 10_001}, "ab"),
        ({"channel": "x", "error": "timeout"}, "a"),
        ({"channel": "y", "died_until": 1_000}, ""),
        ({"ids": (0, 2)}, "ac"),
        ({"ids": (1,), "channel": "y"}, ""),
        ({"ids": ()}, ""),
    ]
    for filters, expected in cases:
        began, queue, there = fresh()
        named = {k: began + v if k.startswith("died") else v for k, v in filters.items()}
        if "ids" in named:
            named["ids"] = tuple(there[place] for place in named["ids"])
        dry = do(grave_of(queue), RedriveStart, filter=RedriveFilter(**named), dry_run=True)
        ended = redriven(grave_of(queue), filter=RedriveFilter(**named))
        assert sorted(texts(queue.receive(10))) == list(expected), filters
        assert (ended.moved, ended.skipped) == (len(expected), 0), filters
        assert dry.moved == len(expected), filters
        assert ended.filter == RedriveFilter(**named)


def test_chosen_letters_go_back_by_their_ids(door, queue, grave):
    """Not by `retry`: here it is `gone`, there it is made ready where it is."""
    first, second, third = bury(queue, *"abc")
    assert queue.retry([second]) == (NotWaiting("gone"),)
    assert grave.retry([second]) == (Retried(),)
    elsewhere = sent(door.fresh(), "d")
    moved = grave.redrive(ids=[third, second, second, *elsewhere, 2**40])
    assert (moved.state, moved.moved, moved.skipped) == ("done", 2, 0)
    assert moved.filter.ids == (third, second, second, *elsewhere, 2**40)
    assert [p.id for p in queue.peek()] == [second, third]
    assert [p.id for p in grave.peek()] == [first]
    slow = grave.redrive_start(ids=[first])
    maintained(grave)
    assert do(grave, RedriveList)[0].moved == 1 + slow.moved
    with pytest.raises(UsageError):
        grave.redrive(ids=range(1, 1_002))


def test_who_began_a_redrive_is_kept(queue, grave):
    bury(queue, "a")
    begun = grave.redrive(dry_run=True)
    assert "@" in begun.started_by
    assert do(grave, RedriveList, 1) == (begun,)
    assert do(grave, RedriveStart, started_by="ada@her-host").started_by.startswith("ada@her-host")


def test_what_is_leased_in_the_dead_letter_queue_stays(queue, grave):
    first, _ = bury(queue, "a", "b")
    held = one_by_one(grave, 1, ack=False)[0]
    assert held.id == first
    assert redriven(grave).moved == 1
    assert texts(queue.receive(10)) == ["b"]
    acked(grave, held)
    assert counts(grave).done == 1


def test_a_scheduled_one_goes_at_once(queue, grave):
    bury(queue, "a")
    one(grave).defer(delay_seconds=600)
    assert redriven(grave).moved == 1
    assert texts(queue.receive()) == ["a"]


def test_those_whose_queue_is_gone_stay_and_are_counted(door, grave, queue):
    other = door.fresh(max_attempts=1, dead_letter=grave.name)
    bury(queue, "a")
    bury(other, "b")
    other.delete()
    dry = do(grave, RedriveStart, dry_run=True)
    assert (dry.moved, dry.skipped) == (1, 1)
    ended = redriven(grave)
    assert (ended.moved, ended.skipped, ended.state) == (1, 1, "done")
    assert [p.payload for p in grave.peek()] == [b"b"]


def test_a_message_that_never_died_has_no_way_back(grave):
    sent(grave, "sent here")
    ended = redriven(grave)
    assert (ended.moved, ended.skipped) == (0, 1)
    assert texts(grave.receive()) == ["sent here"]


# --- where ---


@pytest.mark.driving
def test_a_redrive_to_another_queue(door, queue, grave):
    target = door.fresh()
    numbers = bury(queue, "a", "b")
    ended = redriven(grave, target=target.name)
    assert (ended.target, ended.moved) == (target.name, 2)
    assert [p.id for p in target.peek()] == numbers
    assert counts(target).sent == 2
    assert counts(queue).ready == 0


@pytest.mark.parametrize("fifo", [False, True])
def test_the_limits_of_the_target_hold(door, queue, grave, fifo):
    target = door.fresh(fifo=fifo)
    target.channel("c").pause()
    bury(queue, "a", "b", channel="c")
    redriven(grave, target=target.name)
    assert not target.receive(10)
    target.channel("c").resume()
    assert texts(target.receive(10)) == (["a"] if fifo else ["a", "b"])


def test_any_queue_can_be_redriven_to_another(door, queue):
    target = door.fresh()
    sent(queue, "a", "b")
    assert redriven(queue, target=target.name).moved == 2
    assert texts(one_by_one(target)) == ["a", "b"]
    assert counts(queue).sent == 0


# --- how fast ---


@pytest.mark.parametrize("rate", [1, 5])
def test_a_rate_is_kept_while_the_clock_moves(queue, grave, clock, rate):
    bury(queue, *map(str, range(12)))
    began, redrive = clock.now, do(grave, RedriveStart, per_second=rate)
    for _ in range(200):
        redrive = run(grave, RedriveStep(redrive.id))
        elapsed = (clock.now - began) / 1000
        assert redrive.moved <= rate * (elapsed + 1), "too fast"
        assert redrive.moved == counts(queue).ready
        if redrive.state != "running":
            break
        assert redrive.next_at is None or redrive.next_at >= clock.now  # it had much to look at
        clock.now = clock.now + 100 if redrive.next_at is None else redrive.next_at
    assert (redrive.state, redrive.moved) == ("done", 12)
    assert clock.now - began <= 1000 * (12 / rate + 1), "too slow"


def test_a_step_before_its_time_moves_nothing(queue, grave, clock):
    bury(queue, "a", "b", "c")
    redrive = run(grave, RedriveStep(do(grave, RedriveStart, per_second=1).id))
    moved = redrive.moved
    for _ in range(5):
        assert run(grave, RedriveStep(redrive.id)).moved == moved
    clock.advance(ms=999)
    assert run(grave, RedriveStep(redrive.id)).moved <= moved + 1


def test_many_take_several_steps(queue, grave):
    queue.send_many([message(str(n)) for n in range(2_500)])
    while batch := queue.receive(1_000):
        queue.fail([Failure(m.receipt) for m in batch])
    assert counts(grave).ready == 2_500
    redrive, steps = do(grave, RedriveStart), 0
    while redrive.state == "running":
        before = redrive.moved
        redrive, steps = run(grave, RedriveStep(redrive.id)), steps + 1
        assert redrive.moved - before <= 1_000
    assert (redrive.moved, steps >= 3) == (2_500, True)
    assert counts(queue).ready == 2_500


@pytest.mark.parametrize("maintainer", ["grave", "queue"])
def test_maintain_takes_steps_too(queue, grave, maintainer):
    """Of the queue, and of the one whose dead letters are there: few receive from those."""
    bury(queue, "a", "b")
    redrive = do(grave, RedriveStart)
    maintained({"grave": grave, "queue": queue}[maintainer], 3)
    (there,) = do(grave, RedriveList)
    assert (there.id, there.state, there.moved) == (redrive.id, "done", 2)


# --- what it leaves alone ---


@pytest.mark.driving
def test_a_dry_run_counts_and_changes_nothing(queue, grave, clock):
    bury(queue, "a", "b", "c")
    before = (counts(queue), counts(grave), grave.peek())
    dry = do(grave, RedriveStart, dry_run=True, per_second=1)
    assert (dry.state, dry.moved, dry.skipped) == ("dry_run", 3, 0)
    assert run(grave, RedriveStep(dry.id)) == dry
    maintained(grave, 2)
    assert (counts(queue), counts(grave), grave.peek()) == before


@pytest.mark.needs("sharing")
def test_another_connection_goes_on_where_it_stood(door, queue, grave, clock):
    bury(queue, *"abcd")
    redrive = run(grave, RedriveStep(do(grave, RedriveStart, per_second=1).id))
    assert redrive.state == "running"
    with door.open() as mq:
        ended = stepped(mq.queue(grave.name), redrive, clock)
    assert (ended.moved, ended.state) == (4, "done")
    assert sorted(texts(queue.receive(10))) == list("abcd")


def test_two_steppers_move_each_message_once(queue, grave, clock):
    bury(queue, *map(str, range(9)))
    first, second = (do(grave, RedriveStart, per_second=2) for _ in range(2))
    for _ in range(40):
        first, second = run(grave, RedriveStep(first.id)), run(grave, RedriveStep(second.id))
        clock.advance(1)
    assert {first.state, second.state} == {"done"}
    assert first.moved + second.moved == 9
    assert sorted(texts(queue.receive(10))) == [str(n) for n in range(9)]


@pytest.mark.driving
def test_a_cancelled_redrive_stays_where_it_was(queue, grave, clock):
    bury(queue, *"abcdef")
    redrive = run(grave, RedriveStep(do(grave, RedriveStart, per_second=1).id))
    cancelled = run(grave, RedriveCancel(redrive.id))
    assert (cancelled.state, cancelled.moved) == ("cancelled", redrive.moved)
    assert (cancelled.finished_at, cancelled.next_at) == (clock.now, None)
    clock.advance(60)
    maintained(grave, 2)
    assert run(grave, RedriveStep(redrive.id)) == cancelled
    assert run(grave, RedriveCancel(redrive.id)) == cancelled
    assert counts(queue).ready == cancelled.moved


def test_one_that_has_ended_is_left_as_it_is(queue, grave, clock):
    bury(queue, "a")
    ended = redriven(grave)
    clock.advance(1)
    bury(queue, "b")
    for verb in (RedriveStep, RedriveCancel):
        assert run(grave, verb(ended.id)) == ended
    assert counts(grave).ready == 1


# --- the record ---


@pytest.mark.driving
def test_the_record_says_who_moved_what_and_when(door, queue, grave, clock):
    other = door.fresh()
    bury(queue, "a", channel="c")
    chosen = RedriveFilter("c", 1, clock.now + 1_000, "no")
    started = do(grave, RedriveStart, other.name, chosen, 7, 2)
    assert (started.state, started.moved, started.finished_at) == ("running", 0, None)
    assert (started.target, started.filter, started.per_second) == (other.name, chosen, 7)
    first = stepped(grave, started, clock)
    clock.advance(5)
    second = redriven(grave)
    third = do(other, RedriveStart, queue.name, dry_run=True)
    assert do(grave, RedriveList) == (second, first)
    assert do(grave, RedriveList, 1) == (second,)
    assert do(other, RedriveList) == (third,)
    assert run(grave, RedriveList())[:3] == (third, second, first)
    maintained(grave, 3)
    assert do(grave, RedriveList) == (second, first)


@pytest.mark.driving
def test_what_cannot_be_is_refused(door, queue, grave):
    with pytest.raises(QueueNotFound):
        do(door.mq.queue("nosuch"), RedriveStart)
    for target in ("nosuch-target", grave.name, "no name", 5):
        with pytest.raises(UsageError):
            grave.redrive_start(target)
    for wrong in (
        {"per_second": 0},
        {"max_redrives": -1},
        {"channel": 5},
        {"dry_run": 1},
        {"ids": [0]},
    ):
        with pytest.raises(UsageError):
            grave.redrive_start(**wrong)
    for verb in (RedriveStep, RedriveCancel):
        with pytest.raises(UsageError):
            run(grave, verb(2**40))
    assert do(grave, RedriveList) == ()


@each(
    "wrong",
    [
        {"channel": 5},
        {"died_from": -1},
        {"died_until": "now"},
        {"error": b"x"},
        {"error": "\x00"},
        {"ids": (-1,)},
    ],
)
def test_wrong_filters_are_refused(wrong):
    with pytest.raises(UsageError):
        RedriveFilter(**wrong)


@each("swept", [False, True])
@each("mode", ["until_started", "until_finished", "latest", "rerun"])
def test_what_comes_back_stands_for_nobody(door, mode, swept):
    queue = door.fresh(dedup_mode=mode, max_attempts=1)
    (first,) = bury(queue, "x", dedup_key="k")
    if swept:
        maintained(queue, 20)  # half of the looks begin at a random place
    redriven(grave_of(queue))
    second = queue.send_many([message("y", dedup_key="k")])
    assert (second.duplicates, second.replaced, second.id > first) == ((), (), True)

"""A poison message: the epoch that fails again and again is cut until it fails alone."""

import math

import pytest

from tests.conformance.steps import counts, ending, finished, grave_of, sent, texts
from tests.pipeline.steps import many, on_postgres
from turnabout.pipeline import verbs as p
from turnabout.words.entities import Receipt

pytestmark = on_postgres


def planned(reader, epoch, times):
    """The last of so many plans: so often less one the batch has failed."""
    answers = [reader.plan(epoch, f"failure {n}") for n in range(1, times + 1)]
    assert [a.plans for a in answers] == list(range(answers[0].plans, answers[0].plans + times))
    return answers[-1]


def size(answer):
    return sum(part.messages for part in answer.parts)


@pytest.mark.parametrize("max_plans", [1, 3])
def test_up_to_the_limit_a_batch_is_repeated_whole(pipe, max_plans):
    _, reader = pipe.filled(*many("a", 20), max_plans=max_plans)
    reader.lease(0)
    answer = planned(reader, 1, max_plans)
    assert (size(answer), answer.plans, answer.returned, answer.dead) == (20, max_plans, 0, 0)
    assert reader.state().limit is None
    answer = reader.plan(1)
    assert (size(answer), answer.plans, answer.returned) == (2, max_plans + 1, 18)


def test_it_is_cut_to_its_first_tenth_and_the_innocent_go_back_uncharged(pipe):
    queue, reader = pipe.filled(*many("a", 25), channel="a", parts=2)
    reader.lease(0)
    answer = planned(reader, 1, 4)
    kept = reader.texts(1)
    assert kept == many("a", size(answer))
    assert len(kept) in (2, 3)
    assert answer.returned == 25 - len(kept)
    assert reader.state().limit == len(kept)
    back = queue.receive(100)
    assert sorted(texts(back)) == sorted(many("a", 25)[len(kept) :])
    assert {(m.failures, m.crashes, m.attempt) for m in back} == {(0, 0, 2)}


def alone(reader, epoch, times=3):
    """What becomes of an epoch of one message that fails so often."""
    return planned(reader, epoch, times + 1)


def test_each_further_failure_cuts_again_until_one_is_left_and_set_aside(pipe, clock):
    queue = pipe.queue()
    numbers = sent(queue, *many("a", 200), channel="a")
    reader = pipe.reader(queue)
    reader.lease(0)
    planned(reader, 1, 3)
    assert [size(reader.plan(1)) for _ in range(3)] == [20, 2, 1]
    assert reader.state().limit == 1
    assert [size(answer) for answer in (reader.plan(1), reader.plan(1))] == [1, 1], "tried again"
    answer = reader.plan(1)
    assert (answer.parts, answer.dead, answer.returned) == ((), 0, 0)
    assert (answer.plans, answer.suspect, answer.failures) == (4, numbers[0], 1)
    stats = counts(queue)
    assert (stats.dead, stats.ready, stats.scheduled, stats.leased) == (0, 199, 1, 0)
    (aside,) = [m for m in queue.peek(1000) if m.id == numbers[0]]
    assert (aside.due_at, aside.failures, aside.crashes) == (clock.now + 10_000, 0, 0)
    assert reader.lease(1, 10) == p.Leased(2, 1), "others have their turn at once"


def acknowledged(reader, after, times, plans=1):
    """The last of so many epochs of one message, each acknowledged after so many plans."""
    for epoch in range(after + 1, after + 1 + times):
        assert reader.lease(epoch - 1, 1).messages == 1
        planned(reader, epoch, plans)
        assert reader.lease(epoch, 0).acked == 1
    return after + times


@pytest.mark.parametrize(("plans", "is_dead"), [([1] * 5, 1), ([1] * 4, 0), ([1, 2, 1, 1, 1], 0)])
def test_others_got_through_if_five_epochs_did_that_had_never_failed(pipe, clock, plans, is_dead):
    _, reader = pipe.filled("poison", *many("a", 5), channel="a")
    reader.lease(0, 1)
    alone(reader, 1)
    after = 1
    for one in plans:
        after = acknowledged(reader, after, 1, one)
    clock.advance(10)
    reader.lease(after, 1)
    answer = alone(reader, after + 1)
    assert answer.dead == is_dead


def test_it_is_dead_if_it_fails_alone_again_after_others_got_through(pipe, clock):
    queue, reader = pipe.filled("poison", *many("a", 7), channel="a")
    reader.lease(0, 1)
    number = alone(reader, 1).suspect
    after = acknowledged(reader, 1, 5)
    clock.advance(10)
    assert reader.lease(after, 1).messages == 1
    assert reader.texts(7) == ["poison"]
    assert planned(reader, 7, 3).suspect is None
    answer = reader.plan(7, "ValueError: the poison")
    assert (answer.suspect, answer.dead, answer.parts, answer.wait_ms) == (number, 1, (), 0)
    assert ending(queue, number).outcome == "dead"
    (dead,) = grave_of(queue).peek(10)
    assert dead.origin.last_error == "ValueError: the poison"
    assert (dead.origin.failures, dead.origin.crashes) == (1, 0)
    (row,) = finished(queue, outcome="dead")
    assert row.error == "ValueError: the poison"
    assert reader.lease(7).messages == 1


@pytest.mark.slow
def test_where_nothing_gets_through_nothing_dies_and_waits_grow_up_to_a_minute(pipe, clock):
    """An outage of three hours, with a supervisor that starts the query again at once."""
    queue = pipe.queue(max_attempts=2)
    sent(queue, *many("a", 100), channel="a")
    name, after, waits, began = pipe.name(), 0, [], clock.now
    while clock.now < began + 10_800_000:
        reader = pipe.reader(queue, subscription=name, max_plans=1)
        answer = reader.lease(after, 50)
        if answer.wait_ms:
            assert answer == p.Leased(after, 0, wait_ms=answer.wait_ms)
            clock.advance(ms=answer.wait_ms - 1)
            assert reader.lease(after, 50).wait_ms == 1
            clock.advance(ms=1)
            answer = reader.lease(after, 50)
        assert answer.messages == (50 if after == 0 else 1), "small until one is acknowledged"
        while (answer := reader.plan(after + 1)).suspect is None:
            reader = pipe.reader(queue, subscription=name, max_plans=1)
        waits.append(answer.wait_ms)
        after += 1
    assert waits[:9] == [0, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]
    assert {*waits[7:]} == {60_000}
    assert counts(queue).dead == 0
    clock.advance(3600)
    sizes = []
    while (answer := reader.lease(after, 50)).epoch != after:
        sizes.append(answer.messages)
        after = answer.epoch
    assert sizes == [1, 2, 4, 8, 16, 32, 37]
    assert {(row.failures, row.crashes) for row in finished(queue)} == {(0, 0)}
    assert counts(queue).done == 100


def test_one_that_fails_after_another_did_is_not_dead_until_something_gets_through_again(
    pipe, clock
):
    """Two outages with a moment between them: one message at most pays for it."""
    _, reader = pipe.filled(*many("a", 8), channel="a", max_plans=1)
    for epoch in (1, 2, 3):
        reader.lease(epoch - 1, 1)
        assert alone(reader, epoch, 1).failures == epoch
        clock.advance(2)
    acknowledged(reader, 3, 5)
    clock.advance(60)
    verdicts = []
    for epoch in (9, 10, 11):
        reader.lease(epoch - 1, 1)
        verdicts.append(alone(reader, epoch, 1).dead)
        clock.advance(2)
    assert verdicts == [1, 0, 0]


def test_one_that_got_through_is_under_no_suspicion_any_more(pipe, clock):
    _, reader = pipe.filled("a", "b", channel="a", max_plans=1)
    reader.lease(0, 1)
    assert alone(reader, 1, 1).suspect is not None
    clock.advance(10)
    reader.lease(1, 9)
    suspects = "select suspects from subscription where name = ?"
    assert pipe.select(suspects, reader.subscription)[0]["suspects"]
    reader.lease(2, 0)
    assert pipe.select(suspects, reader.subscription) == [{"suspects": {}}]


def test_killed_drivers_leave_nothing_dead_however_many(pipe, clock):
    """Killed after the lease or after the plan, with the same message at the head each time."""
    queue = pipe.queue(max_attempts=2)
    sent(queue, "a")
    name, after = pipe.name(), 0
    for n in range(200):
        reader = pipe.reader(queue, subscription=name)
        answer = reader.lease(after, 50)
        if answer.messages and n % 3:
            after += not reader.plan(answer.epoch).parts
        clock.advance(10)
    assert counts(queue).dead == 0
    assert [(m.failures, m.crashes) for m in queue.peek(10)] == [(0, 0)]


def test_an_epoch_that_was_set_aside_makes_no_later_one_small(pipe):
    _, reader = pipe.filled(*many("a", 30), channel="a", max_plans=1)
    reader.lease(0, 1)
    assert planned(reader, 1, 2).suspect is not None
    assert reader.lease(0, 1, beyond=1).epoch == 2
    assert reader.state().limit is None, "as large as they may be"
    assert reader.plan(1).parts == ()
    assert reader.state().limit is None


def test_small_epochs_are_over_when_all_that_was_asked_for_may_come_even_if_there_is_nothing(pipe):
    _, reader = pipe.filled("poison", max_plans=1)
    reader.lease(0)
    assert planned(reader, 1, 2).suspect is not None
    assert reader.state().limit == 1
    assert reader.lease(1, 1).messages == 0
    assert reader.state().limit is None


def test_what_never_failed_has_no_bound(pipe):
    _, reader = pipe.filled(*many("a", 3), channel="a")
    reader.lease(0)
    reader.lease(1, 0)
    assert reader.state().limit is None


def test_epochs_stay_small_and_grow_twofold_with_each_that_is_acknowledged(pipe):
    queue, reader = pipe.filled(*many("a", 100), channel="a", max_plans=1)
    assert reader.lease(0, 30).messages == 30
    planned(reader, 1, 2)
    sizes, after = [len(reader.texts(1))], 1
    assert sizes == [3]
    while (answer := reader.lease(after, 30)).epoch != after:
        sizes.append(answer.messages)
        after = answer.epoch
    assert sizes == [3, 6, 12, 24, 30, 25]
    assert reader.state().limit is None, "as large as they may be: it is over"
    assert counts(queue).done == 100


def supervised(pipe, queues, is_poison, is_over, seconds=10):
    """A driver that dies of some messages, and is started again: how often, and what it has done.

    `is_over` is asked of the counts of the first queue, the last one has a new message each time.
    """
    name, after, done, starts = pipe.name(), 0, [], 0
    while not is_over(counts(queues[0])):
        assert starts < 300
        sent(queues[-1], "new")
        reader = pipe.reader(*queues, subscription=name)
        while (answer := reader.lease(after, 5_000)).epoch != after:
            reader.plan(answer.epoch, "poisoned")
            batch = reader.texts(answer.epoch)
            if any(map(is_poison, batch)):
                starts += 1
                break
            done += batch
            after = answer.epoch
        pipe.clock.advance(seconds)
    assert {(row.failures, row.crashes) for row in finished(queues[0], outcome="done")} == {(0, 0)}
    return starts, done


@pytest.mark.slow
@pytest.mark.parametrize("count", [100, 1000])
def test_nothing_but_the_poison_dies_and_all_else_is_done(pipe, count):
    queue, other, new = pipe.queue(max_attempts=2), pipe.queue(max_attempts=2), pipe.queue()
    sent(queue, *many("a", count * 2 // 3), channel="a")
    sent(queue, "poison", channel="b")
    sent(other, *many("o", count // 3))
    starts, done = supervised(
        pipe, (queue, other, new), "poison".__eq__, lambda c: c.dead and c.done == count * 2 // 3
    )
    assert sorted({*done} - {"new"}) == sorted([*many("a", count * 2 // 3), *many("o", count // 3)])
    assert starts <= 3 * math.log2(count), "one bad message costs a few restarts"
    assert [dead.text() for dead in grave_of(queue).peek(10)] == ["poison"]
    assert (counts(other).dead, counts(new).dead) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1, 10, 120])
def test_a_row_of_them_stops_the_stream_for_a_while_only(pipe, seconds):
    """Others are reached, though those at the head come back meanwhile."""
    queue = pipe.queue(max_attempts=2)
    sent(queue, *many("poison", 6), *many("a", 6), channel="a")
    supervised(
        pipe,
        (queue, pipe.queue()),
        lambda text: text[0] == "p",
        lambda c: (c.dead, c.done) == (6, 6),
        seconds,
    )
    assert sorted(dead.text() for dead in grave_of(queue).peek(10)) == many("poison", 6)


def test_an_epoch_that_lost_all_its_leases_does_not_fail_for_ever(pipe):
    """With failOnLeaseLost each of its batches fails, and the messages are others' by now."""
    queue, reader = pipe.filled(*many("a", 20))
    reader.lease(0)
    queue.ack([Receipt(row["message_id"], row["attempt"]) for row in reader.rows(1)])
    answers = [reader.plan(1) for _ in range(8)]
    assert [size(answer) for answer in answers[:3]] == [20, 20, 20]
    assert answers[-1].parts == ()
    assert {(answer.returned, answer.dead) for answer in answers} == {(0, 0)}
    assert reader.lease(1).messages == 0

"""A poison message: the epoch that fails again and again is cut until it fails alone."""

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


def test_each_further_failure_cuts_again_until_one_is_left_and_dead(pipe):
    queue = pipe.queue()
    numbers = sent(queue, *many("a", 200), channel="a")
    reader = pipe.reader(queue)
    reader.lease(0)
    planned(reader, 1, 3)
    assert [size(reader.plan(1)) for _ in range(3)] == [20, 2, 1]
    assert reader.state().limit == 1
    answer = reader.plan(1, "ValueError: the poison")
    assert (answer.parts, answer.dead, answer.returned) == ((), 1, 0)
    stats = counts(queue)
    assert (stats.dead, stats.ready, stats.leased) == (1, 199, 0)
    assert ending(queue, numbers[0]).outcome == "dead"
    (dead,) = grave_of(queue).peek(10)
    assert dead.origin.last_error == "ValueError: the poison"
    assert (dead.origin.failures, dead.origin.crashes) == (1, 0)
    (row,) = finished(queue)
    assert (row.outcome, row.error) == ("dead", "ValueError: the poison")


def test_an_epoch_that_died_makes_no_later_one_small(pipe):
    _, reader = pipe.filled(*many("a", 30), channel="a", max_plans=1)
    reader.lease(0, 1)
    assert planned(reader, 1, 2).dead == 1
    assert reader.lease(0, 1, beyond=1).epoch == 2
    assert reader.state().limit is None, "as large as they may be"
    assert reader.plan(1).parts == ()
    assert reader.state().limit is None


def test_small_epochs_are_over_when_all_that_was_asked_for_may_come_even_if_there_is_nothing(pipe):
    _, reader = pipe.filled("poison", max_plans=1)
    reader.lease(0)
    assert planned(reader, 1, 2).dead == 1
    assert reader.state().limit == 1
    assert reader.lease(1, 1).messages == 0
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


def test_nothing_but_the_poison_dies_and_all_else_is_done(pipe):
    """A driver that dies of one message, and is started again each time."""
    queue, other = pipe.queue(max_attempts=2), pipe.queue(max_attempts=2)
    sent(queue, *many("a", 60), channel="a")
    sent(queue, "poison", channel="b")
    sent(other, *many("o", 30))
    name, after, done, starts = pipe.name(), 0, [], 0
    while True:
        reader = pipe.reader(queue, other, subscription=name, max_plans=2)
        starts += 1
        assert starts < 40
        while (answer := reader.lease(after, 50)).epoch != after:
            reader.plan(answer.epoch, "poisoned")
            batch = reader.texts(answer.epoch)
            if "poison" in batch:
                break
            done += batch
            after = answer.epoch
        else:
            break
    assert sorted(done) == sorted([*many("a", 60), *many("o", 30)])
    assert len(done) == 90
    assert starts <= 12, "one bad message costs a few restarts"
    (dead,) = grave_of(queue).peek(10)
    assert dead.text() == "poison"
    assert (counts(queue).dead, counts(queue).done, counts(other).done) == (1, 60, 30)
    assert not grave_of(other).peek(10)
    assert {(row.failures, row.crashes) for row in finished(queue, outcome="done")} == {(0, 0)}
    assert reader.lease(after) == p.Leased(after, 0)


def test_an_epoch_that_lost_all_its_leases_does_not_fail_for_ever(pipe):
    """With failOnLeaseLost each of its batches fails, and the messages are others' by now."""
    queue, reader = pipe.filled(*many("a", 20))
    reader.lease(0)
    queue.ack([Receipt(row["message_id"], row["attempt"]) for row in reader.rows(1)])
    answers = [reader.plan(1) for _ in range(7)]
    assert [size(answer) for answer in answers[:3]] == [20, 20, 20]
    assert answers[-1].parts == ()
    assert {(answer.returned, answer.dead) for answer in answers} == {(0, 0)}
    assert reader.lease(1).messages == 0

"""Epochs: messages that are leased and recorded together, so that a batch can be repeated."""

import pytest

from tests.conformance.steps import (
    counts,
    ending,
    finished,
    maintained,
    one,
    one_by_one,
    sent,
    texts,
)
from tests.pipeline.steps import LEASE_MS, many, on_postgres
from turnabout import Acked, LeaseLost, Policy, QueueNotFound, Rate, Receipt, message
from turnabout.pipeline import verbs as p

pytestmark = on_postgres


def leased(reader, after, most=1000):
    """What the next epoch has."""
    answer = reader.lease(after, most)
    assert isinstance(answer, p.Leased), answer
    return [] if answer.epoch == after else reader.texts(answer.epoch)


def lives(reader, after, most=1000):
    """Lease and acknowledge until there is nothing more; what each epoch had."""
    epochs = []
    while (answer := reader.lease(after, most)).epoch != after:
        after = answer.epoch
        epochs.append(reader.texts(after))
    return epochs


# --- lease, replay, acknowledge ---


def test_an_epoch_is_leased_and_recorded(pipe, clock):
    queue = pipe.queue()
    numbers = sent(queue, "a", "b", "c")
    reader = pipe.reader(queue)
    assert reader.lease(0) == p.Leased(1, 3)
    assert reader.texts(1) == ["a", "b", "c"]
    assert [row["message_id"] for row in reader.rows(1)] == numbers
    assert {row["lease_until"] for row in reader.rows(1)} == {clock.now + LEASE_MS}
    assert not queue.receive(10), "they are leased"
    assert counts(queue).leased == 3


def test_a_batch_that_is_repeated_reads_the_same(pipe, clock):
    queue, reader = pipe.filled(*"abc")
    assert reader.lease(0, 2) == p.Leased(1, 2)
    rows = reader.rows(1)
    clock.advance(ms=LEASE_MS - 1)
    for _ in range(2):
        assert reader.lease(0, 1000) == p.Leased(1, 2)
        assert reader.texts(1) == ["a", "b"]
    assert [row["attempt"] for row in reader.rows(1)] == [row["attempt"] for row in rows]
    clock.advance(ms=LEASE_MS - 1)
    assert reader.extend() == p.Renewed(2, 0), "asking again has renewed the leases"
    assert texts(queue.receive(10)) == ["c"]


def test_acknowledged_is_what_comes_up_to_after_and_no_more(pipe, clock):
    queue = pipe.queue()
    first, second = sent(queue, "a", "b")
    reader = pipe.reader(queue)
    reader.lease(0, 1)
    assert counts(queue).done == 0
    assert reader.lease(1, 1) == p.Leased(2, 1, acked=1)
    assert ending(queue, first).outcome == "done"
    assert ending(queue, second) is None
    assert (reader.state().epoch, reader.state().acked) == (2, 1)
    assert reader.rows(1) == []
    assert reader.lease(2, 1) == p.Leased(2, 0, acked=1)
    assert counts(queue).done == 2
    assert [row.id for row in finished(queue)] == [second, first]


def test_no_messages_asked_for_acknowledges_and_looks(pipe):
    queue, reader = pipe.filled("a", "b")
    assert reader.lease(0, 0) == p.Leased(0, 0)
    assert reader.state().epoch == 0
    reader.lease(0, 1)
    assert reader.lease(0, 0) == p.Leased(1, 1), "the recorded one"
    assert reader.lease(1, 0) == p.Leased(1, 0, acked=1)
    assert counts(queue).ready == 1


def test_a_recorded_epoch_of_which_nothing_is_left_ends(pipe, clock):
    """Its driver died, its leases ran out, others did the work: the next reader goes on."""
    queue, reader = pipe.filled(*"abc")
    assert reader.lease(0) == p.Leased(1, 3)
    clock.advance(ms=LEASE_MS + 1)
    assert all(isinstance(one.ack(), Acked) for one in queue.receive(3))
    sent(queue, "d")
    after = pipe.reader(queue, subscription=reader.subscription)
    assert after.lease(0) == p.Leased(1, 3), "a batch of which no row is there any more"
    assert after.texts(1) == []
    assert after.lease(1) == p.Leased(2, 1, 0, 3)


def test_the_recorded_epoch_comes_back_to_the_next_reader(pipe, clock):
    queue, dead = pipe.filled(*"abc")
    dead.lease(0, 2)
    rows = dead.rows(1)
    clock.advance(10)
    heir = pipe.reader(queue, subscription=dead.subscription)
    assert heir.lease(heir.acked, 1000) == p.Leased(1, 2)
    kept = ("message_id", "attempt", "part", "place", "value")
    assert [[row[k] for k in kept] for row in heir.rows(1)] == [
        [row[k] for k in kept] for row in rows
    ]
    assert heir.lease(1, 1000) == p.Leased(2, 1, acked=2)


def test_numbers_go_on_after_a_checkpoint_that_is_ahead_or_behind(pipe):
    _, reader = pipe.filled(*"abc")
    assert reader.lease(99, 1) == p.Leased(100, 1)
    assert reader.lease(100, 1) == p.Leased(101, 1, acked=1)
    reader.lease(101, 0)
    assert reader.lease(7, 1) == p.Leased(102, 1), "acknowledged long ago: there is none to repeat"


def test_history_says_when_it_was_leased_and_acknowledged(pipe, clock):
    queue = pipe.queue()
    began = clock.now
    sent(queue, "a", channel="c")
    reader = pipe.reader(queue)
    clock.advance(1)
    reader.lease(0)
    clock.advance(2)
    reader.extend()
    reader.lease(1)
    (row,) = finished(queue)
    assert (row.outcome, row.channel, row.attempt) == ("done", "c", 1)
    assert (row.sent_at, row.leased_at, row.finished_at) == (began, began + 1000, began + 3000)
    assert (row.failures, row.crashes, row.result) == (0, 0, None)


def test_a_queue_that_is_not_there_changes_nothing(pipe):
    queue, reader = pipe.filled("a", "b")
    reader.lease(0, 1)
    reader.queues = (queue.name, pipe.name("nosuch"))
    with pytest.raises(QueueNotFound):
        reader.lease(1)
    assert (counts(queue).done, counts(queue).leased) == (0, 1)


def test_no_queues_are_enough_to_acknowledge(pipe):
    _, reader = pipe.filled("a")
    reader.lease(0)
    reader.queues = ()
    assert reader.lease(1) == p.Leased(1, 0, acked=1)


@pytest.mark.parametrize("end", ["purge", "delete"])
def test_messages_that_are_gone_are_lost_to_their_epoch(pipe, end):
    queue, other = pipe.queue(), pipe.queue()
    sent(queue, "a", "b")
    sent(other, "c")
    reader = pipe.reader(queue, other)
    assert reader.lease(0).messages == 3
    if end == "purge":
        queue.purge(state="leased")
    else:
        queue.delete()
    reader.queues = (other.name,)
    assert reader.texts(1) == ["c"]
    assert reader.extend() == p.Renewed(1, 2)
    assert reader.lease(1) == p.Leased(1, 0, acked=1, lost=2)


def test_an_epoch_of_thousands(pipe):
    queue, other = pipe.queue(), pipe.queue()
    queue.send_many([message(str(n), channel=str(n % 7)) for n in range(1_500)])
    other.send_many([message(str(n)) for n in range(1_000)])
    reader = pipe.reader(queue, other, parts=3)
    assert reader.lease(0, 2_400) == p.Leased(1, 2_400)
    assert len({row["message_id"] for row in reader.rows(1)}) == 2_400
    assert sum(part.messages for part in reader.plan(1).parts) == 2_400
    assert reader.lease(1, 2_400) == p.Leased(2, 100, acked=2_400)
    assert counts(queue).done + counts(other).done == 2_400


# --- policies hold (P8 to P12) ---


def test_a_concurrency_is_never_passed(pipe):
    queue = pipe.queue()
    queue.channel("a").set_policy(Policy(max_concurrency=2))
    sent(queue, *many("a", 5), channel="a")
    (held,) = queue.receive(1)
    sent(queue, "b0", channel="b")
    reader, other = pipe.reader(queue), pipe.reader(queue)
    assert sorted(leased(reader, 0)) == ["a1", "b0"], "a worker has a slot"
    assert leased(other, 0) == []
    held.ack()
    assert leased(other, 0) == ["a2"]
    assert lives(reader, 1) == [["a3"], ["a4"]]


def test_a_rate_is_never_exceeded(pipe, clock):
    queue = pipe.queue()
    queue.channel("a").set_policy(Policy(rate=Rate(1, per_seconds=10, burst=2)))
    sent(queue, *many("a", 5), channel="a")
    reader = pipe.reader(queue)
    assert leased(reader, 0) == ["a0", "a1"]
    assert leased(reader, 1) == []
    clock.advance(9.999)
    assert leased(reader, 1) == []
    clock.advance(ms=1)
    assert leased(reader, 1) == ["a2"]
    clock.advance(30)
    assert leased(reader, 2) == ["a3", "a4"]


def test_a_fifo_queue_gives_runs_each_to_one_task(pipe):
    queue = pipe.queue(fifo=True)
    for channel in "abcde":
        sent(queue, *many(channel, 4), channel=channel)
    reader = pipe.reader(queue, parts=4)
    assert reader.lease(0, 15).messages == 15
    rows, held = reader.rows(1), set[str]()
    assert len({row["part"] for row in rows}) > 1
    for channel in "abcde":
        mine = [row for row in rows if row["channel"] == channel]
        run = [bytes(row["value"]).decode() for row in mine]
        assert run == list(many(channel, 4))[: len(run)]
        assert len({row["part"] for row in mine}) <= 1
        held |= {channel} if run else set()
    assert not {m.channel for m in queue.receive(10)} & held, "until all of a run are settled"
    assert sum(len(epoch) for epoch in lives(reader, 1)) + queue.stats().leased == 5


def test_a_fifo_channel_keeps_its_order_though_batches_fail(pipe):
    """What comes first is kept of a failed batch, not what has been in most of them."""
    queue = pipe.queue(fifo=True)
    sent(queue, *many("a", 30), channel="a", priority=1)
    reader = pipe.reader(queue, max_plans=1)
    assert reader.lease(0, 20).messages == 20
    assert [reader.plan(1).returned for _ in range(2)] == [0, 18]
    assert reader.texts(1) == ["a0", "a1"]
    sent(queue, "urgent", channel="a", priority=0)
    assert reader.lease(1, 20).messages > 1
    assert [reader.plan(2).returned > 0 for _ in range(2)] == [False, True]
    assert reader.texts(2) == ["urgent"]
    assert [t for epoch in lives(reader, 2) for t in epoch] == list(many("a", 30))[2:]


def test_an_epoch_ends_with_the_messages_that_fill_it(pipe):
    queue, other = pipe.queue(), pipe.queue()
    queue.send_many([message(b"x" * 1000, channel=f"c{n % 7}") for n in range(300)])
    other.send_many([message(b"", channel=f"c{n % 7}") for n in range(30)])
    reader = pipe.reader(queue, other)
    first = reader.lease(0, max_bytes=100_000)
    sizes = [len(row["value"]) for row in reader.rows(1)]
    assert 100_000 <= sum(sizes) <= 110_000
    assert sizes.count(0) >= 10, "both queues have their turns"
    assert reader.lease(1, max_bytes=500).messages <= 20, "ten of each at first"
    assert reader.lease(2, 3, max_bytes=500_000).messages == 3
    rest = reader.lease(3, max_bytes=10_000_000)
    assert first.messages + 20 + 3 + rest.messages >= 330


def test_what_is_not_due_is_not_leased(pipe, clock):
    queue = pipe.queue()
    sent(queue, "later", delay_seconds=5)
    sent(queue, "short", ttl_seconds=3)
    reader = pipe.reader(queue)
    clock.advance(4.999)
    assert leased(reader, 0) == [], "one is early, one has expired"
    assert counts(queue).expired == 1
    clock.advance(ms=1)
    assert leased(reader, 0) == ["later"]


def test_what_is_paused_is_not_leased(pipe):
    queue = pipe.queue()
    sent(queue, "a", channel="a")
    sent(queue, "b", channel="b")
    reader = pipe.reader(queue)
    queue.update(paused=True)
    assert leased(reader, 0) == []
    queue.update(paused=False)
    queue.channel("a").set_policy(Policy(paused=True))
    assert leased(reader, 0) == ["b"]
    queue.channel("a").clear_policy()
    assert leased(reader, 1) == ["a"]


def test_inside_a_channel_by_priority_and_order_of_sending(pipe):
    queue = pipe.queue()
    for n, priority in enumerate([0, 1, -1, 0, -1]):
        sent(queue, f"{priority}/{n}", priority=priority)
    reader = pipe.reader(queue)
    assert [sorted(e) for e in lives(reader, 0, 2)] == [["-1/2", "-1/4"], ["0/0", "0/3"], ["1/1"]]


def test_channels_take_turns_from_epoch_to_epoch(pipe):
    queue = pipe.queue()
    sent(queue, *many("a", 20), channel="a")
    for channel in "bcde":
        sent(queue, *many(channel, 2), channel=channel)
    reader = pipe.reader(queue)
    epochs = lives(reader, 0, 5)
    assert [{text[0] for text in epoch} for epoch in epochs[:2]] == [set("abcde")] * 2
    assert sum(map(len, epochs)) == 28


def test_a_weight_is_a_bigger_share(pipe):
    queue = pipe.queue()
    queue.channel("a").set_policy(Policy(weight=3))
    for channel in "ab":
        sent(queue, *many(channel, 30), channel=channel)
    reader = pipe.reader(queue)
    epochs = lives(reader, 0, 8)[:3]
    assert [sum(text[0] == "a" for text in epoch) for epoch in epochs] == [6, 6, 6]


def test_a_fresh_reader_goes_on_with_the_round(pipe):
    """The place in the round is kept with the subscription, not with its reader."""
    queue = pipe.queue()
    for channel in "abcd":
        sent(queue, *many(channel, 2), channel=channel)
    name, seen = pipe.name(), []
    for after in range(4):
        seen += leased(pipe.reader(queue, subscription=name), after, 1)
    assert sorted(seen) == ["a0", "b0", "c0", "d0"]


# --- several queues ---


def test_an_epoch_is_shared_among_the_queues(pipe):
    noisy, quiet, empty = pipe.queue(), pipe.queue(), pipe.queue()
    sent(noisy, *many("n", 40))
    sent(quiet, *many("q", 12))
    reader = pipe.reader(noisy, quiet, empty)
    epochs = lives(reader, 0, 8)
    assert [len(epoch) for epoch in epochs] == [8] * 6 + [4], "what one leaves, another takes"
    for epoch in epochs[:3]:
        assert sum(text[0] == "q" for text in epoch) >= 2


def test_no_queue_starves_when_epochs_are_smaller_than_their_number(pipe):
    queues = [pipe.queue() for _ in range(4)]
    for n, queue in enumerate(queues):
        sent(queue, *many(str(n), 3))
    reader = pipe.reader(*queues)
    epochs = lives(reader, 0, 1)
    assert sorted(text[0] for (text,) in epochs[:4]) == ["0", "1", "2", "3"]
    assert len(epochs) == 12


def test_queues_may_change_from_epoch_to_epoch(pipe):
    queue, other = pipe.queue(), pipe.queue()
    sent(queue, "a")
    sent(other, "b")
    reader = pipe.reader(queue)
    assert leased(reader, 0) == ["a"]
    reader.queues = (other.name,)
    assert reader.lease(0) == p.Leased(1, 1), "the recorded one, whatever it was leased from"
    assert reader.texts(1) == ["a"]
    assert leased(reader, 1) == ["b"]
    assert counts(queue).done == 1
    assert reader.state().queues == (other.name,)


# --- leases that are lost (P6) ---


def test_a_lost_lease_is_counted_and_changes_nothing(pipe, clock):
    queue, reader = pipe.filled("a", "b", "c")
    reader.lease(0)
    clock.advance(ms=LEASE_MS)
    first, second = queue.receive(2)
    second.ack()
    assert reader.lease(1, 0) == p.Leased(1, 0, acked=0, lost=3)
    stats = counts(queue)
    assert (stats.done, stats.leased, stats.ready) == (1, 1, 1)
    assert first.ack() == Acked()
    assert texts(one_by_one(queue)) == ["c"]


def test_a_batch_whose_leases_are_lost_reads_fewer(pipe, clock):
    queue, reader = pipe.filled("a", "b", "c", channel="x")
    reader.lease(0)
    rows = reader.rows(1)
    receipt = Receipt(rows[1]["message_id"], rows[1]["attempt"])
    assert queue.ack([receipt]) == (Acked(),)
    assert reader.texts(1) == ["a", "c"]
    planned = reader.plan(1)
    assert sum(part.messages for part in planned.parts) == 3, "as recorded: the reader can tell"
    assert reader.lease(1) == p.Leased(1, 0, acked=2, lost=1)


def test_what_nobody_noticed_is_kept(pipe, clock):
    """As with a receipt: a lease that ran out is good until somebody else has the message."""
    queue, reader = pipe.filled("a")
    reader.lease(0)
    clock.advance(ms=LEASE_MS + 5)
    assert reader.texts(1) == ["a"]
    assert reader.lease(1) == p.Leased(1, 0, acked=1)
    assert counts(queue).done == 1


def test_a_repeated_batch_takes_nothing_back_from_a_worker(pipe, clock):
    queue, reader = pipe.filled("a", "b")
    reader.lease(0)
    clock.advance(ms=LEASE_MS)
    (worker,) = queue.receive(1)
    maintained(queue)
    leased_again = reader.lease(0)
    assert leased_again.epoch == 1
    assert reader.texts(1) == []
    assert worker.extend(lease_seconds=100).lease_until == clock.now + 100_000
    assert reader.lease(1) == p.Leased(2, 1, lost=2), "the one that came back, under a new number"
    assert reader.texts(2) == ["b"]


def test_a_worker_s_receipt_of_a_leased_message_is_refused(pipe):
    queue = pipe.queue()
    sent(queue, "a")
    old = one(queue)
    old.release()
    reader = pipe.reader(queue)
    reader.lease(0)
    for call in (old.ack, old.release, old.fail, old.extend):
        assert call() == LeaseLost("leased")
    assert reader.texts(1) == ["a"]


def test_an_epoch_is_leased_ahead_of_one_that_is_not_acknowledged(pipe):
    queue, reader = pipe.filled(*"abcd")
    assert reader.lease(0, 1) == p.Leased(1, 1)
    assert reader.lease(0, 2, beyond=1) == p.Leased(2, 2)
    assert reader.lease(0, 1) == p.Leased(1, 1), "both are recorded"
    assert (reader.texts(1), reader.texts(2)) == (["a"], ["b", "c"])
    assert reader.lease(1, 1) == p.Leased(2, 2, acked=1)
    assert reader.lease(1, 9, beyond=2) == p.Leased(3, 1)
    assert reader.extend() == p.Renewed(3, 0)
    assert reader.lease(2, 9, beyond=3) == p.Leased(3, 0, acked=2)
    assert reader.lease(3, 9) == p.Leased(3, 0, acked=1)
    assert counts(queue).done == 4


def test_what_was_acknowledged_ahead_of_all_is_no_number_any_more(pipe):
    """A checkpoint that is ahead, then one that is behind: a new reader must skip nothing."""
    queue, reader = pipe.filled("a", "b")
    reader.lease(0, 1)
    reader.lease(6, 0)
    assert reader.lease(5, 1) == p.Leased(7, 1)
    heir = pipe.reader(queue, subscription=reader.subscription)
    assert heir.acked == 6
    assert heir.lease(heir.acked) == p.Leased(7, 1)

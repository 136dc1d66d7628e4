"""Subscriptions: the newest reader has it, heartbeats keep it, an operator can end it."""

import pytest

from tests.conformance.steps import counts, maintained, one, sent
from tests.pipeline.steps import LEASE_MS, Reader, on_postgres
from turnabout import Acked, LeaseLost
from turnabout.pipeline import verbs as p

pytestmark = on_postgres


def test_the_first_reader_begins_at_the_beginning(pipe, clock):
    queue = pipe.queue()
    reader = pipe.reader(queue, owner="host 1")
    assert reader.acked == 0
    state = reader.state()
    assert (state.owner, state.generation) == ("host 1", reader.generation)
    assert (state.epoch, state.acked, state.messages, state.lease_until) == (0, 0, 0, None)
    assert (state.limit, state.opened_at, state.seen_at) == (None, clock.now, clock.now)


def test_a_new_reader_begins_after_what_is_acknowledged(pipe):
    queue, first = pipe.filled("a", "b")
    assert first.lease(0, 1) == p.Leased(1, 1)
    assert first.lease(1, 1) == p.Leased(2, 1, acked=1)
    second = pipe.reader(queue, subscription=first.subscription)
    assert second.acked == 1
    assert second.generation > first.generation
    assert second.lease(1) == p.Leased(2, 1)


def test_an_older_reader_changes_nothing(pipe, clock):
    queue, old = pipe.filled("a", "b", owner="old")
    old.lease(0, 1)
    new = pipe.reader(queue, owner="new", subscription=old.subscription)
    clock.advance(1)
    before, there = new.state(), queue.peek(10)
    for call in (
        lambda: old.lease(1),
        lambda: old.lease(0),
        lambda: old.lease(1, 0),
        lambda: old.plan(1),
        old.extend,
    ):
        assert call() == p.Superseded("new")
    assert (new.state(), queue.peek(10)) == (before, there)
    assert new.plan(1).plans == 1


def test_a_generation_that_never_was_is_nobody_s(pipe):
    reader = pipe.reader(pipe.queue(), owner="me")
    reader.generation += 1
    assert reader.extend() == p.Superseded("me")


def test_the_list_is_by_name_and_tells_of_each(pipe, clock):
    queue, other = pipe.queue(), pipe.queue()
    sent(queue, "a", "b")
    name = pipe.name()
    readers = [
        Reader(pipe, f"{name}-{letter}", (queue.name, other.name)) for letter in ("b", "a", "c")
    ]
    opened = clock.now
    clock.advance(5)
    assert readers[0].lease(0).messages == 2
    listed = [s for s in pipe.run(p.SubscriptionList()) if s.name.startswith(name)]
    assert [s.name for s in listed] == [f"{name}-a", f"{name}-b", f"{name}-c"]
    state = listed[1]
    assert (state.epoch, state.acked, state.messages) == (1, 0, 2)
    assert state.lease_until == clock.now + LEASE_MS
    assert sorted(state.queues) == sorted([queue.name, other.name])
    assert (state.opened_at, state.seen_at) == (opened, clock.now)


# --- heartbeats ---


def test_a_heartbeat_renews_all_that_is_unacknowledged(pipe, clock):
    queue, reader = pipe.filled("a", "b")
    reader.lease(0)
    for _ in range(3):
        clock.advance(ms=LEASE_MS - 1)
        assert reader.extend() == p.Renewed(2, 0)
        assert not queue.receive(10)
    assert reader.state().seen_at == clock.now
    assert reader.state().lease_until == clock.now + LEASE_MS
    assert [row["lease_until"] for row in reader.rows(1)] == [clock.now + LEASE_MS] * 2
    assert reader.lease(1) == p.Leased(1, 0, acked=2)


def test_a_heartbeat_tells_what_was_lost_and_takes_nothing_back(pipe, clock):
    queue, reader = pipe.filled("a", "b")
    reader.lease(0)
    clock.advance(ms=LEASE_MS)
    taken = queue.receive(1)
    assert [m.attempt for m in taken] == [2]
    maintained(queue)
    assert reader.extend() == p.Renewed(0, 2)
    assert counts(queue).leased == 1
    assert taken[0].ack() == Acked()


# --- release ---


@pytest.mark.parametrize("forget", [False, True])
def test_release_gives_everything_back_uncharged(pipe, forget):
    queue, other = pipe.queue(), pipe.queue()
    sent(queue, "a", "b")
    sent(other, "c")
    reader = pipe.reader(queue, other)
    reader.lease(0)
    assert reader.release(forget=forget) == 3
    assert [(m.text(), m.failures, m.crashes) for m in queue.receive(10)] == [
        ("a", 0, 0),
        ("b", 0, 0),
    ]
    assert one(other).attempt == 2
    assert counts(queue).sent == 2


@pytest.mark.parametrize("forget", [False, True])
def test_release_fences_the_reader(pipe, forget):
    queue, reader = pipe.filled("a")
    reader.lease(0)
    reader.release(forget=forget)
    assert reader.rows(1) == []
    for call in (lambda: reader.lease(0), lambda: reader.plan(1), reader.extend):
        assert call() == p.Superseded("")
    assert counts(queue).ready == 1
    assert reader.release(forget=forget) == 0


def test_there_is_nothing_to_do_for_a_subscription_of_nobody(pipe):
    name = pipe.name()
    assert pipe.run(p.SubscriptionRelease(name)) == 0
    assert pipe.run(p.SubscriptionRelease(name, forget=True)) == 0
    assert pipe.run(p.EpochExtend(name, 1, 1)) == p.Superseded("")
    assert pipe.run(p.EpochPlan(name, 1, 1, 1, 1, "")) == p.Superseded("")
    assert pipe.run(p.EpochLease(name, 1, (), 0, 1, 1)) == p.Superseded("")
    assert name not in [s.name for s in pipe.run(p.SubscriptionList())]


def test_a_receipt_of_before_a_release_is_stale(pipe):
    queue, reader = pipe.filled("a")
    reader.lease(0)
    (row,) = reader.rows(1)
    reader.release()
    worker = one(queue)
    assert worker.attempt == row["attempt"] + 1
    stale = type(worker.receipt)(row["message_id"], row["attempt"])
    assert queue.ack([stale]) == (LeaseLost("leased"),)

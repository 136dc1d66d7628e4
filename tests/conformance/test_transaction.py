"""run_transaction: some verbs in one transaction, in this order; all of them or none."""

import pytest

from tests.conformance.steps import counts, grave_of, is_empty, one_by_one, sent, taken, texts
from turnabout import (
    Acked,
    ChannelFull,
    Deferral,
    Deferred,
    Failure,
    LeaseLost,
    Policy,
    QueueNotFound,
    Refused,
    Retrying,
    Sent,
    UsageError,
    message,
)
from turnabout.words import verbs as v
from turnabout.words.outcomes import QueueFull

pytestmark = pytest.mark.driving  # each door has a way of its own to run one


@pytest.fixture
def transaction(door):
    """Some verbs, in one transaction."""
    return lambda *verbs: door.mq.store.run_transaction(list(verbs))


def send(queue, *payloads, **options):
    return v.Send(queue.name, tuple(message(payload, **options) for payload in payloads))


def test_each_verb_has_its_answer_in_order(door, transaction, clock):
    queue, other = door.fresh(backoff_jitter=0.0), door.fresh()
    sent(queue, *"abcd")
    a, b, c, d = (m.receipt for m in queue.receive(4))
    answers = transaction(
        v.Ack(queue.name, (a,)),
        send(other, "x", "y"),
        v.Defer(queue.name, (Deferral(b, 5_000),)),
        v.Fail(queue.name, (Failure(c, "no"),)),
        v.Extend(queue.name, (d,), 60_000),
        v.PolicySet(other.name, "ch", {"weight": 3}),
    )
    acked, added, deferred, failed, extended, policy = answers
    assert acked == (Acked(),)
    assert isinstance(added, Sent)
    assert len(added.ids) == 2
    assert deferred == (Deferred(clock.now + 5_000),)
    assert failed == (Retrying(clock.now + 1_000),)
    assert extended[0].lease_until == clock.now + 60_000
    assert policy == Policy(weight=3)
    assert texts(one_by_one(other)) == ["x", "y"]
    assert (counts(queue).done, counts(queue).scheduled, counts(queue).leased) == (1, 2, 1)


def test_nothing_is_nothing(transaction):
    assert transaction() == []


def test_later_verbs_see_what_earlier_ones_did(queue, transaction):
    queue.channel("c").set_policy(Policy(max_size=1))
    first, second, policy, third = transaction(
        send(queue, "a", channel="c"),
        send(queue, "b", channel="c"),
        v.PolicySet(queue.name, "c", {"max_size": 2}),
        send(queue, "c", channel="c"),
    )
    assert isinstance(first, Sent)
    assert second == ChannelFull("c", 1, 1)
    assert policy.max_size == 2
    assert third.id > first.id
    assert texts(one_by_one(queue)) == ["a", "c"]


def test_an_outcome_that_refuses_undoes_nothing(door, transaction):
    queue, full = door.fresh(), door.fresh(max_messages=1)
    held = taken(queue, "a")
    held.release()
    lost, added, refused = transaction(
        v.Ack(queue.name, (held.receipt,)), send(queue, "b"), send(full, "1", "2")
    )
    assert lost == (LeaseLost("ready"),)
    assert isinstance(added, Sent)
    assert refused == QueueFull(1, 0)
    assert texts(one_by_one(queue)) == ["a", "b"]


def test_an_error_undoes_all_of_them(door, transaction):
    queue = door.fresh()
    held = taken(queue, "a")
    with pytest.raises(QueueNotFound):
        transaction(
            v.Ack(queue.name, (held.receipt,)),
            send(queue, "b"),
            v.PolicySet(queue.name, "c", {"paused": True}),
            v.Peek("nosuch"),
        )
    with pytest.raises(UsageError):
        transaction(send(queue, "b"), v.QueueUpdate(queue.name, {"fifo": True}))
    assert counts(queue).sent == 1
    assert queue.policies() == ()
    assert held.ack() == Acked()


def test_a_dead_one_and_its_successor(door, transaction):
    queue = door.fresh(max_attempts=1)
    held = taken(queue, "a")
    dead, added = transaction(
        v.Fail(queue.name, (Failure(held.receipt),)), send(queue, "again", dedup_key="k")
    )
    assert dead[0].queue == grave_of(queue).name
    assert isinstance(added, Sent)
    assert texts(grave_of(queue).receive()) == ["a"]


def test_a_message_received_so_is_leased(queue, transaction):
    sent(queue, "a")
    received, stats = transaction(v.Receive(queue.name, 10), v.Stats(queue.name))
    assert [d.payload for d in received.deliveries] == [b"a"]
    assert stats[0].leased == 1
    assert is_empty(queue)


def test_a_long_one(queue, transaction):
    answers = transaction(*(send(queue, str(n), dedup_key=str(n % 50)) for n in range(100)))
    assert [a.id for a in answers[50:]] == [a.id for a in answers[:50]]
    assert counts(queue).sent == 50


def test_all_or_none_is_none_where_one_is_refused(door):
    queue, full = door.fresh(), door.fresh(max_messages=1)
    sent(queue, "a", "b")
    sent(full, "x")
    a, b = queue.receive(2)
    queue.ack([b])
    ack = v.Ack(queue.name, (a.receipt,))
    lost = v.Ack(queue.name, (b.receipt,))
    for verbs, told in (
        ((ack, send(full, "y")), "verb 2 was refused: QueueFull"),
        ((send(queue, "c"), lost), "verb 2 was refused: LeaseLost"),
        ((send(queue, "c"), v.Receive(queue.name, 1, acks=(b.receipt,))), "verb 2 .* LeaseLost"),
    ):
        with pytest.raises(Refused, match=told):
            door.mq.store.run_transaction(verbs, all_or_none=True)
    assert (counts(queue).leased, counts(queue).ready, counts(full).ready) == (1, 0, 1)
    acked, added = door.mq.store.run_transaction((ack, send(queue, "c")), all_or_none=True)
    assert (acked, len(added.ids)) == ((Acked(),), 1)


def test_what_an_ack_leads_to_is_sent_with_it_or_neither_happens(door):
    queue, other, full = door.fresh(), door.fresh(), door.fresh(max_messages=1)
    sent(queue, "a")
    sent(full, "x")
    (mine,) = queue.receive()
    with pytest.raises(Refused, match="QueueFull"):
        mine.ack(then={other.name: [message("y")], full.name: [message("z")]})
    assert (counts(queue).leased, counts(other).ready) == (1, 0)
    then = {other.name: [message("y"), message("z")]}
    assert mine.ack(result={"n": 1}, then=then) == Acked()
    assert (counts(queue).done, texts(one_by_one(other))) == (1, ["y", "z"])
    with pytest.raises(Refused, match="LeaseLost"):
        mine.ack(then=then)
    (ending,) = queue.wait([mine.id])
    assert ending.result.json() == {"n": 1}
    assert is_empty(other)

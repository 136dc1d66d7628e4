"""Interleavings staged by hand on PostgreSQL: open transactions hide and block nobody (P13).

How it is staged is in `stage.py`.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import turnabout
from tests.conformance.steps import sent, texts
from tests.races.stage import (
    Cursor,
    opposite,
    soon,
    sql_ack,
    sql_pause,
    sql_receive,
    sql_send,
    transaction,
)
from tests.support.doors import beside
from tests.support.postgres import one_migrated_url
from turnabout import Acked, LeaseLost, Policy, Rate, Sent

pytestmark = [pytest.mark.slow, pytest.mark.real_time]


url = one_migrated_url


@pytest.fixture
def queue(url, request) -> Iterator[Any]:
    with turnabout.connect(url) as mq:
        queue = mq.queue(f"q{abs(hash(request.node.nodeid))}")
        queue.create()
        yield queue


POLICIES = {
    "plain": None,
    "concurrency": Policy(max_concurrency=50),
    "rate": Policy(rate=Rate(1000, burst=100)),
    "size": Policy(max_size=50),
    "weight": Policy(weight=3),
}


@pytest.fixture(params=[*POLICIES, "default", "fifo"])
def kind(request, queue) -> str:
    """A channel `a` of every kind: without limits, with each of them, in queues with any."""
    policy = POLICIES.get(request.param)
    if policy is not None:
        queue.channel("a").set_policy(policy)
        queue.receive()
    elif request.param == "default":
        queue.update(policy=Policy(max_concurrency=50))
    elif request.param == "fifo":
        queue.delete()
        queue.create(fifo=True)
    return request.param


# --- an open producer ---


def test_an_open_producer_blocks_and_hides_nobody(url, queue, kind):
    with transaction(url) as producer:
        sent(queue, "before", channel="a")
        sql_send(producer, queue.name, "open", "a")
        assert isinstance(soon(queue.send, "after", channel="a"), Sent)
        assert isinstance(soon(queue.send, "other", channel="b"), Sent)
        got = []
        for _ in range(5):
            batch = soon(queue.receive, 10)
            got += texts(batch)
            assert soon(queue.ack, [m.receipt for m in batch]) == (Acked(),) * len(batch)
        assert sorted(got) == ["after", "before", "other"]
        producer.commit()
    assert texts(soon(queue.receive, 10)) == ["open"]


def test_what_was_rolled_back_was_never_sent(url, queue, kind):
    with transaction(url) as producer:
        sql_send(producer, queue.name, "never", "a")
        producer.rollback()
    sent(queue, "x", channel="a")
    assert texts(soon(queue.receive, 10)) == ["x"]
    assert queue.stats().sent == 1


def test_an_open_producer_blocks_no_policy(url, queue, kind):
    with transaction(url) as producer:
        sql_send(producer, queue.name, "open", "a")
        soon(queue.channel("a").set_policy, Policy(max_concurrency=2))
        soon(queue.channel("a").pause)
        soon(queue.receive)
        soon(queue.channel("a").resume)
        soon(queue.update, policy=Policy(weight=2))
        soon(queue.stats)
        producer.commit()
    assert texts([*queue.receive(10), *queue.receive(10)]) == ["open"]


def test_an_open_policy_change_blocks_no_producer_and_no_receiver(url, queue, kind):
    sent(queue, "before", channel="a")
    with transaction(url) as other:
        sql_pause(other, queue.name, "a")
        assert isinstance(soon(queue.send, "after", channel="a"), Sent)
        assert isinstance(soon(queue.send, "b", channel="b"), Sent)
        (b,) = [m for _ in range(4) for m in soon(queue.receive, 10) if m.channel == "b"]
        assert soon(b.ack) == Acked()
        other.commit()
    assert texts(queue.receive(10)) == []


def test_the_first_send_to_a_queue_in_an_open_transaction(url, queue):
    """Making the queue is the one thing that another first send may have to wait for."""
    with transaction(url) as producer:
        sql_send(producer, f"{queue.name}-new", "open")
        assert isinstance(soon(queue.send, "elsewhere"), Sent)
        assert texts(soon(queue.receive)) == ["elsewhere"]
        producer.commit()


# --- two at once, in opposite orders ---


def test_two_that_ack_the_same_messages_in_opposite_orders_both_end(url, queue):
    sent(queue, "1", "2")
    a, b = (m.receipt for m in queue.receive(2))
    opposite(
        url,
        lambda connection: sql_ack(connection, queue.name, a),
        lambda connection: sql_ack(connection, queue.name, b),
    )
    assert queue.stats().done == 2


def test_two_that_ack_and_fail_many_in_opposite_orders_both_end(url, queue):
    sent(queue, *map(str, range(20)), channel="a")
    queue.channel("a").set_policy(Policy(max_concurrency=20))
    receipts = [m.receipt for _ in range(3) for m in queue.receive(20)]
    assert len(receipts) == 20
    opposite(
        url,
        lambda connection: sql_ack(connection, queue.name, *receipts[:10]),
        lambda connection: sql_ack(connection, queue.name, *reversed(receipts[10:])),
    )
    assert queue.stats().done == 20


def test_two_that_send_and_set_policies_in_opposite_orders_both_end(url, queue):
    for channel in "ab":
        queue.channel(channel).set_policy(Policy(max_concurrency=5))
    queue.receive()

    def touch(channel: str) -> Callable[[Cursor], None]:
        def both(connection: Cursor) -> None:
            sql_send(connection, queue.name, "x", channel)
            sql_pause(connection, queue.name, channel)

        return both

    opposite(url, touch("a"), touch("b"))
    assert queue.stats().sent == 4
    assert queue.channel("a").policy().paused


def test_two_that_receive_in_opposite_orders_both_end(url, queue):
    for channel in "ab":
        queue.channel(channel).set_policy(Policy(max_concurrency=5))
        sent(queue, "1", "2", "3", channel=channel)
    other = beside(queue, f"{queue.name}-other")
    sent(other, "1", "2", "3")
    opposite(
        url,
        lambda connection: sql_receive(connection, queue.name, 2),
        lambda connection: sql_receive(connection, other.name, 2),
    )


# --- receivers that meet ---


def test_who_lands_on_a_taken_message_goes_on_to_the_next_channel(url, queue):
    for channel in "abc":
        sent(queue, channel, channel=channel)
    with transaction(url) as other:
        assert len(sql_receive(other, queue.name, 2)) == 2
        assert texts(soon(queue.receive)) == ["c"]
        batch = soon(queue.receive)
        assert not batch
        assert batch.retry_after_ms is not None, "what the other gives back would be slept over"
        other.rollback()
    assert sorted(texts(queue.receive(10))) == ["a", "b"]


def test_inside_a_channel_the_next_one_is_taken(url, queue):
    sent(queue, "1", "2", "3")
    with transaction(url) as other:
        sql_receive(other, queue.name)
        assert texts(soon(queue.receive)) == ["2"]


@pytest.mark.parametrize("most", [1, 2])
def test_slots_are_exact_while_another_receiver_is_not_done(url, queue, most):
    queue.channel("a").set_policy(Policy(max_concurrency=most))
    sent(queue, *"123456", channel="a")
    sent(queue, "b", channel="b")
    with transaction(url) as other:
        taken = sql_receive(other, queue.name, 10)
        here = [m for _ in range(3) for m in soon(queue.receive, 10)]
        assert len([m for m in here if m.channel == "a"]) + len(taken) <= most + 1
        assert texts(here) in ([], ["b"])
        other.commit()
    assert queue.stats().leased == most + 1
    assert not queue.receive(10)


def test_fifo_is_one_at_a_time_while_another_receiver_is_not_done(url, queue):
    queue.delete()
    queue.create(fifo=True)
    sent(queue, "1", "2", channel="a")
    with transaction(url) as other:
        assert len(sql_receive(other, queue.name)) == 1
        assert texts(soon(queue.receive)) == []
        other.commit()
    assert texts(queue.receive(10)) == []


def test_an_ack_that_is_not_committed_blocks_nobody(url, queue):
    sent(queue, "1", "2", channel="a")
    queue.channel("a").set_policy(Policy(max_concurrency=1))
    (m,) = [m for _ in range(3) for m in queue.receive()]
    with transaction(url) as worker:
        assert sql_ack(worker, queue.name, m.receipt) == [None]
        assert isinstance(soon(m.ack), LeaseLost)
        assert isinstance(soon(m.extend), LeaseLost)
        assert texts(soon(queue.receive)) == [], "the slot is not free before the commit"
        assert isinstance(soon(queue.send, "3", channel="a"), Sent)
        worker.commit()
    assert texts(soon(queue.receive)) == ["2"]
    assert queue.stats().done == 1


def test_an_ack_that_was_rolled_back_did_not_happen(url, queue):
    sent(queue, "1")
    (m,) = queue.receive()
    with transaction(url) as worker:
        sql_ack(worker, queue.name, m.receipt)
        worker.rollback()
    assert m.ack() == Acked()
    assert queue.stats().done == 1

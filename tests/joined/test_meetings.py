"""Transactions that meet on PostgreSQL: none waits for a row of another (P13), and FIFO holds.

All in one thread: a verb that waited for the other transaction would wait for ever, so the server
ends it after some seconds and the test fails.
"""

import itertools
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Self

import psycopg
import pytest

import turnabout
from tests.joined.conftest import postgres_place
from tests.support.postgres import deadlocks
from turnabout import Deferral, Failure, Policy, Receipt

pytestmark = pytest.mark.slow

WAITS = "-c statement_timeout=5s"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgres_place() as url:
        yield url


_names = itertools.count(1)


class Meeting:
    """A queue, and transactions that work on it."""

    def __init__(self, url: str, **settings: Any) -> None:
        self._close = ExitStack()
        self._url = url
        self.mq = self._close.enter_context(turnabout.connect(url))
        self.queue = self.mq.queue(f"meeting{next(_names)}")
        self.queue.create(**settings)

    def transaction(self) -> tuple[psycopg.Connection[Any], Any]:
        connection = psycopg.connect(self._url, options=WAITS)
        self._close.callback(connection.close)
        return connection, self.queue.within(connection)

    def transactions(self) -> list[tuple[psycopg.Connection[Any], Any]]:
        return [self.transaction(), self.transaction()]

    def leased(self, count: int) -> list[Receipt]:
        for _ in range(count):
            self.queue.send("x")
        return [m.receipt for m in self.queue.receive(count)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close.close()


ON_A_MESSAGE: dict[str, Callable[[Any, Receipt], Any]] = {
    "ack": lambda queue, receipt: queue.ack([receipt]),
    "defer": lambda queue, receipt: queue.defer([Deferral(receipt, state=b"s")]),
    "fail": lambda queue, receipt: queue.fail([Failure(receipt)]),
    "dies": lambda queue, receipt: queue.fail([Failure(receipt, retry=False)]),
    "extend": lambda queue, receipt: queue.extend([receipt]),
    "release": lambda queue, receipt: queue.release([receipt]),
    "cancel": lambda queue, receipt: queue.cancel([receipt.id]),
}


@pytest.mark.share(16)
@pytest.mark.parametrize(("one", "other"), list(itertools.product(ON_A_MESSAGE, ON_A_MESSAGE)))
def test_the_same_messages_in_opposite_orders(url: str, one: str, other: str) -> None:
    first_does, second_does = ON_A_MESSAGE[one], ON_A_MESSAGE[other]
    with Meeting(url) as meeting:
        a, b = meeting.leased(2)
        (one_connection, first), (other_connection, second) = meeting.transactions()
        for outcomes in (first_does(first, a), second_does(second, b)):
            assert not isinstance(outcomes[0], turnabout.LeaseLost)
        for outcomes in (first_does(first, b), second_does(second, a)):
            assert isinstance(outcomes[0], turnabout.LeaseLost | turnabout.NotWaiting)
        one_connection.commit()
        other_connection.commit()


def test_the_same_dedup_keys_in_opposite_orders(url: str) -> None:
    with Meeting(url) as meeting:
        (one_connection, first), (other_connection, second) = meeting.transactions()
        first.send("1a", dedup_key="a")
        second.send("2b", dedup_key="b")
        with pytest.raises(turnabout.Busy, match="roll your transaction back"):
            first.send("1b", dedup_key="b")
        one_connection.rollback()
        second.send("2a", dedup_key="a")
        other_connection.commit()
        first.send("1a", dedup_key="a")
        first.send("1b", dedup_key="b")
        one_connection.commit()
        assert sorted(m.payload for m in meeting.queue.peek()) == [b"2a", b"2b"]


def test_senders_and_receivers_do_not_meet(url: str) -> None:
    with Meeting(url, policy=Policy(max_concurrency=1)) as meeting:
        for channel in "ab":
            meeting.queue.send("x", channel=channel)
        (one_connection, first), (other_connection, second) = meeting.transactions()
        (message,) = first.receive()
        second.send("y", channel="a")
        second.send("y", channel="b")
        assert isinstance(meeting.queue.send("z", channel=message.channel), turnabout.Sent)
        message.ack()
        one_connection.commit()
        other_connection.commit()
        assert sum(1 for _ in meeting.queue.peek(100)) == 4


def test_a_crowd_of_transactions_in_no_order(url: str) -> None:
    """Rows of the business are touched in one order, as their owner sees to it; messages in any."""
    with Meeting(url, max_attempts=None) as meeting:
        receipts = meeting.leased(30)
        meeting.queue.channel("c").set_policy(Policy(max_concurrency=5))
        failed: list[BaseException] = []

        def work(seed: int) -> None:
            rng = random.Random(seed)
            try:
                with psycopg.connect(url) as connection:
                    queue = meeting.queue.within(connection)
                    for _ in range(25):
                        for _ in range(rng.randint(1, 6)):
                            one_of_all(rng, queue, rng.choice(receipts))
                        rng.choice((connection.commit, connection.rollback))()
            except BaseException as error:
                failed.append(error)
                raise

        before = deadlocks(url)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
        assert not failed
        assert deadlocks(url) == before
        s = meeting.queue.stats()
        assert s.sent == (
            s.scheduled + s.ready + s.leased + s.done + s.dead + s.cancelled + s.expired
        )


def one_of_all(rng: random.Random, queue: Any, receipt: Receipt) -> None:
    match rng.randrange(5):
        case 0:
            queue.send("x", channel=rng.choice(("", "c")))
        case 1:
            queue.channel(rng.choice("cd")).change_policy(max_concurrency=rng.randint(1, 9))
        case 2:
            for message in queue.receive(3):
                rng.choice((message.ack, message.release, message.defer))()
        case _:
            rng.choice(list(ON_A_MESSAGE.values()))(queue, receipt)


def test_fifo_after_a_crash_it_is_back_at_once(url: str) -> None:
    with Meeting(url, fifo=True) as meeting:
        meeting.queue.send_many(turnabout.message(str(n), channel="c") for n in range(2))
        connection, first = meeting.transaction()
        (message,) = first.receive()
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("select pg_terminate_backend(%s)", (connection.info.backend_pid,))
        (again,) = meeting.queue.receive(wait_seconds=20)  # as soon as the server has noticed
        assert (again.id, again.attempt, again.crashes) == (message.id, 1, 0)


@pytest.mark.parametrize("settings", [{"fifo": True}, {"policy": Policy(max_concurrency=1)}])
def test_transactions_of_many_processes_hold_a_channel_each(url: str, settings: Any) -> None:
    names = ["", "\x01", "a", "a\x01", "ab", "b", "\ud7ff", "\ue000", "\U0010ffff", "z" * 250]
    with Meeting(url, **settings) as meeting, ExitStack() as close:
        meeting.queue.send_many(turnabout.message("x", channel=name) for name in names * 2)
        taken: list[str] = []
        for _ in names:  # each has a Turnabout of its own, which begins its round at the start
            mq = close.enter_context(turnabout.connect(url))
            connection = close.enter_context(psycopg.connect(url, options=WAITS))
            taken += [m.channel for m in mq.queue(meeting.queue.name).within(connection).receive()]
        assert sorted(taken) == sorted(names)

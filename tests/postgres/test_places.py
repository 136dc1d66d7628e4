"""Where messages stand: what the verbs leave in the unlogged tables, and what maintenance finds
there that nobody has cleared away.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

import turnabout
from tests.conformance.steps import counts, grave_of, is_empty, maintained, sent, texts
from tests.support.doors import Clock
from tests.support.postgres import one_migrated_url
from turnabout import Acked, Deferral, Failure, LeaseLost, Policy, message

pytestmark = pytest.mark.slow  # a database

url = one_migrated_url
PLACES = ("ready", "scheduled", "lease", "extension", "slot")
numbers = itertools.count(1)
NOWHERE = dict.fromkeys(PLACES, 0)


class Place:
    """A queue, and a look into the tables behind it."""

    def __init__(self, queue: Any, clock: Clock, connection: psycopg.Connection) -> None:
        self.queue = queue
        self.clock = clock
        self.connection = connection

    def rows(self) -> dict[str, int]:
        return {
            table: self.connection.execute(f"select from turnabout.{table}".encode()).rowcount
            for table in PLACES
        }

    def crash(self) -> None:
        """What a crash of the server does to them."""
        for table in (*PLACES, "built"):
            self.connection.execute(f"truncate turnabout.{table}".encode())


@contextmanager
def place(url: str, **settings: Any) -> Iterator[Place]:
    """A new queue, and no other's messages."""
    clock = Clock()
    with (
        psycopg.connect(url, autocommit=True) as connection,
        turnabout.connect(url, clock=clock) as mq,
    ):
        for table in (*PLACES, "message"):
            connection.execute(f"truncate turnabout.{table}".encode())
        queue = mq.queue(f"place{next(numbers)}")
        queue.create(backoff_jitter=0.0, **settings)
        yield Place(queue, clock, connection)


@pytest.mark.parametrize("settings", [{}, {"fifo": True}, {"policy": Policy(max_concurrency=9)}])
def test_nothing_is_left_of_what_was_settled(url, settings):
    with place(url, **settings) as here:
        queue, clock = here.queue, here.clock
        queue.send_many([message(str(n), channel=f"c{n}") for n in range(12)])
        batch = queue.receive(12)
        assert len(batch) == 12
        receipts = [m.receipt for m in batch]
        queue.extend(receipts[:9], lease_seconds=100)
        queue.release(receipts[:2])
        queue.defer([Deferral(one, 1) for one in receipts[2:4]])
        queue.fail([Failure(one, "no", delay_ms=1) for one in receipts[4:6]])
        queue.fail([Failure(one, "no", retry=False) for one in receipts[6:8]])
        queue.cancel([m.id for m in batch[8:10]])
        clock.advance(200)
        assert queue.ack(receipts[10:]) == (Acked(), Acked())
        again = queue.receive(12)
        assert len(again) == 6
        assert here.rows()["slot"] == (6 if settings else 0)
        assert queue.ack([m.receipt for m in again]) == (Acked(),) * 6
        assert queue.ack(receipts) == (LeaseLost("gone"),) * 12
        dead = [m.receipt for m in grave_of(queue).receive(12)]
        assert grave_of(queue).ack(dead) == (Acked(), Acked())
        assert here.rows() == NOWHERE


def test_leases_that_were_settled_one_by_one_are_swept(url):
    with place(url) as here:
        queue = here.queue
        sent(queue, *"abcdef")
        a, b, c, *others = queue.receive(6)
        a.extend(lease_seconds=100)
        for held in (a, b, *others):
            assert held.ack() == Acked()
        maintained(queue)
        assert here.rows() == {**NOWHERE, "lease": 1, "extension": 1}, "one is out"
        assert c.ack() == Acked()
        maintained(queue)
        assert here.rows() == NOWHERE


def test_a_slot_that_nobody_freed_is_found_and_its_channel_looks_again(url):
    """An ack that was open while its channel got its first limit knows of no slot."""
    with place(url) as here:
        queue = here.queue
        queue.send_many([message(text, channel="c") for text in "ab"])
        (held,) = queue.receive(1)
        with psycopg.connect(here.connection.info.dsn) as open_one:
            assert queue.within(open_one).ack([held.receipt]) == (Acked(),)
            queue.channel("c").set_policy(Policy(max_concurrency=1))
            assert is_empty(queue)
            assert is_empty(queue), "what was there before the limit had it look again"
            open_one.commit()
        assert is_empty(queue), "it sleeps"
        maintained(queue)
        assert texts(queue.receive(2)) == ["b"]


@pytest.mark.parametrize("fifo", [False, True])
def test_after_a_crash_each_message_has_its_place_again(url, fifo):
    with place(url, fifo=fifo) as here:
        queue, clock = here.queue, here.clock
        queue.channel("narrow").set_policy(Policy(max_concurrency=1))
        queue.send_many([message(text, channel="narrow") for text in "ab"])
        queue.send_many([message(text, channel=text) for text in "cd"])
        held = {m.text(): m for m in queue.receive(3)}
        assert len(held) == 3
        queue.send("late", channel="late", delay_seconds=10)
        queue.send("brief", channel="brief", delay_seconds=10, ttl_seconds=5)
        here.crash()
        assert queue.ack([m.receipt for m in held.values()]) == (LeaseLost("ready"),) * 3
        stats = counts(queue)
        assert (stats.ready, stats.scheduled, stats.leased) == (4, 2, 0)
        again = {m.text(): m.attempt for m in queue.receive(10, lease_seconds=100)}
        assert again == {"a": 1, "c": 1, "d": 1}, "of the channel with a limit one"
        assert is_empty(queue)
        clock.advance(10)
        assert texts(queue.receive(10)) == ["late"]
        assert counts(queue).expired == 1

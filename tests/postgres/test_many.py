"""A call with many messages takes as long as there are many, not their number squared."""

import itertools
import time

import psycopg
import pytest

import turnabout
from tests.postgres.probe import Connection, backend_seconds
from tests.support.postgres import one_migrated_url
from turnabout.words.entities import Deferral, Failure

pytestmark = pytest.mark.slow  # a database for each

FEW, MANY = 500, 10_000
TOO_LONG = 2 * MANY / FEW
"""As many times as long; squared it would be ten times that."""

VERBS = {
    "ack": lambda queue, receipts: queue.ack(receipts),
    "ack with results": lambda queue, receipts: queue.ack(receipts, results=["r"] * len(receipts)),
    "extend": lambda queue, receipts: queue.extend(receipts),
    "release": lambda queue, receipts: queue.release(receipts),
    "defer": lambda queue, receipts: queue.defer([Deferral(one, 1, b"s") for one in receipts]),
    "fail": lambda queue, receipts: queue.fail([Failure(one, "e") for one in receipts]),
}


url = one_migrated_url


@pytest.fixture
def watch(url):
    """A connection that asks what the others spend."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def sending(mq: turnabout.Turnabout, watch: Connection, count: int) -> float:
    queue = mq.queue(f"q{time.monotonic_ns()}")
    queue.create(policy=turnabout.Policy(max_size=MANY))
    begun = backend_seconds(watch)
    queue.send_many([turnabout.message(b"x")] * count)
    return backend_seconds(watch) - begun


def seconds(mq: turnabout.Turnabout, watch: Connection, verb: str, count: int, lost: int) -> float:
    """What the server spends on the verb over so many receipts, some of which are lost."""
    if verb == "send to a channel with a size":
        return sending(mq, watch, count)
    queue = mq.queue(f"q{time.monotonic_ns()}")
    queue.create(events="all")
    queue.send_many([turnabout.message(b"x")] * count)
    receipts = []
    while len(receipts) < count:
        receipts += [m.receipt for m in queue.receive(1_000)]
    queue.ack(receipts[:lost])
    begun = backend_seconds(watch)
    outcomes = VERBS[verb](queue, receipts)
    taken = backend_seconds(watch) - begun
    assert sum(isinstance(outcome, turnabout.LeaseLost) for outcome in outcomes) == lost
    return taken


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("verb", "lost"), [("send to a channel with a size", 0), *itertools.product(VERBS, (0, 1))]
)
def test_what_a_call_takes_follows_its_batch(url, watch, verb, lost):
    """By processor time of the server: a loaded machine stretches the longer of two calls."""
    with turnabout.connect(url) as mq:
        few = min(seconds(mq, watch, verb, FEW, lost) for _ in range(3))
        for _ in range(3):
            many = seconds(mq, watch, verb, MANY, lost)
            if many < TOO_LONG * few:
                return
    pytest.fail(
        f"{MANY} at once take {many / few:.0f} times as long as {FEW}, not {MANY / FEW:.0f}"
    )

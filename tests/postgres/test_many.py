"""A call with many messages takes as long as there are many, not their number squared."""

import itertools
import time

import pytest

import turnabout
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


def sending(mq: turnabout.Turnabout, count: int) -> float:
    queue = mq.queue(f"q{time.monotonic_ns()}")
    queue.create(policy=turnabout.Policy(max_size=MANY))
    begun = time.monotonic()
    queue.send_many([turnabout.message(b"x")] * count)
    return time.monotonic() - begun


def seconds(mq: turnabout.Turnabout, verb: str, count: int, lost: int) -> float:
    """What the verb takes over so many receipts, some of which are lost."""
    if verb == "send to a channel with a size":
        return sending(mq, count)
    queue = mq.queue(f"q{time.monotonic_ns()}")
    queue.create(events="all")
    queue.send_many([turnabout.message(b"x")] * count)
    receipts = []
    while len(receipts) < count:
        receipts += [m.receipt for m in queue.receive(1_000)]
    queue.ack(receipts[:lost])
    begun = time.monotonic()
    outcomes = VERBS[verb](queue, receipts)
    taken = time.monotonic() - begun
    assert sum(isinstance(outcome, turnabout.LeaseLost) for outcome in outcomes) == lost
    return taken


@pytest.mark.parametrize(
    ("verb", "lost"),
    [("send to a channel with a size", 0), *itertools.product(VERBS, (0, 1))],
)
def test_what_a_call_takes_follows_its_batch(url, verb, lost):
    with turnabout.connect(url) as mq:
        for _ in range(3):  # other processes may be in the way, though hardly each time
            if seconds(mq, verb, MANY, lost) < TOO_LONG * seconds(mq, verb, FEW, lost):
                return
    pytest.fail(f"{MANY} at once take more than {TOO_LONG:.0f} times as long as {FEW}")

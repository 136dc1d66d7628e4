"""The database's clock is set back, by an hour or by days. Steps that only some processes of a
host have seen: tests/races/test_clocks.py.
"""

import pytest

from tests.conformance.steps import counts, do, grave_of, maintained, one, sent, texts
from turnabout import LeaseLost, Policy, Rate
from turnabout.words import verbs as v

HOUR, DAY = 3_600, 86_400
BACK = pytest.mark.parametrize("back", [HOUR, 3 * DAY])


@pytest.fixture(autouse=True)
def _moves_on_at_the_end(clock):
    """Past any time that a file has seen: other tests use the same door."""
    yield
    clock.advance(60 * DAY)


@BACK
def test_a_rate_goes_on(queue, clock, back):
    queue.create()
    queue.channel("slow").set_policy(Policy(rate=Rate(10, per_seconds=1, burst=5)))
    sent(queue, *map(str, range(100)), channel="slow")
    assert len(queue.receive(100)) == 5
    clock.advance(-back)
    given = 0
    for _ in range(40):
        maintained(queue)
        clock.advance(0.1)
        given += len(queue.receive(100))
    assert 18 <= given <= 45, "all of it, or half, and no burst but one"


@BACK
def test_leases_run_out_and_no_sooner(queue, clock, back):
    sent(queue, "held", "extended", "held too")
    first, second = queue.receive(2, lease_seconds=30), queue.receive(lease_seconds=30)
    first[1].extend(lease_seconds=300)
    clock.advance(-back)
    maintained(queue)
    clock.advance(29)
    assert not queue.receive(3)
    clock.advance(31)
    assert sorted(texts(queue.receive(3, lease_seconds=1_000))) == ["held", "held too"]
    assert isinstance(second[0].ack(), LeaseLost)
    clock.advance(200)
    assert not queue.receive(3)
    clock.advance(400)
    assert texts(queue.receive(3)) == ["extended"]


def test_no_delay_is_longer_than_one_may_be(queue, clock):
    (number,) = sent(queue, "x", delay_seconds=366 * DAY)
    clock.advance(-30 * DAY)
    maintained(queue)
    assert queue.peek()[0].due_at == clock() + 366 * DAY * 1000
    clock.advance(366 * DAY)
    assert one(queue).id == number


@BACK
@pytest.mark.parametrize("fifo", [False, True])
def test_a_delay_goes_on_whatever_it_was_for(door, clock, back, fifo):
    """Of a send, a retry and a defer; hidden behind others that are due sooner."""
    queue = door.fresh(fifo=fifo, backoff_seconds=40, backoff_jitter=0.0)
    for name in ("sent", "failed", "deferred"):
        delay = 40 if name == "sent" else None
        sent(queue, name, channel=name, delay_seconds=delay)
    for message in queue.receive(2):
        message.fail() if message.text() == "failed" else message.defer(delay_seconds=40)
    clock.advance(-back)
    maintained(queue)
    sent(queue, *"later", channel="later", delay_seconds=500)
    for _ in range(4):
        clock.advance(5)
        maintained(queue)
        assert not queue.receive(10)
    clock.advance(65)
    maintained(queue)
    assert sorted(texts(queue.receive(10))) == ["deferred", "failed", "sent"]


@BACK
def test_a_redrive_goes_on(queue, clock, back):
    sent(queue, *"abc")
    for message in queue.receive(3):
        message.fail(retry=False)
    do(grave_of(queue), v.RedriveStart, per_second=1)
    maintained(queue)
    clock.advance(-back)
    for _ in range(6):
        clock.advance(1)
        maintained(queue)
    assert counts(queue).ready == 3

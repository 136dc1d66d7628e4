"""peek, stats, channels, purge: what is there, counted, shown and cancelled."""

import pytest

from tests.conformance.steps import counts, is_empty, one, sent, texts
from tests.support.each import each
from turnabout import Acked, LeaseLost, Policy, Purged, Rate, UsageError, message

# --- peek ---


def test_peek_shows_everything_and_changes_nothing(queue, clock):
    sent(queue, "a", channel="c", priority=2, headers={"h": "v"})
    (before,) = queue.peek()
    assert (before.state, before.channel, before.priority) == ("ready", "c", 2)
    assert (before.attempt, before.failures, before.crashes) == (0, 0, 0)
    assert (before.payload, before.content_type) == (b"a", "text/plain; charset=utf-8")
    assert (dict(before.headers), before.saved_state) == ({"h": "v"}, None)
    assert (before.error, before.origin, before.sent_at) == (None, None, clock.now)
    assert queue.peek() == (before,)
    assert one(queue).attempt == 1


def test_peek_shows_when_things_are_due(queue, clock):
    sent(queue, "now")
    sent(queue, "later", delay_seconds=9)
    queue.receive(1, lease_seconds=20)
    leased, scheduled = queue.peek()
    assert (leased.state, leased.due_at) == ("leased", clock.now + 20_000)
    assert (scheduled.state, scheduled.due_at) == ("scheduled", clock.now + 9_000)
    clock.advance(9)
    (*_, due) = queue.peek()
    assert (due.id, due.state, due.due_at) == (scheduled.id, "ready", due.sent_at)


def test_leases_that_ran_out_are_told_from_live_ones(queue, clock):
    sent(queue, *"abc")
    long, short = queue.receive(1, lease_seconds=60), queue.receive(2, lease_seconds=10)
    queue.extend([short[1].receipt], lease_seconds=30)

    def ran_out():
        return queue.stats().ran_out, [p.id for p in queue.peek() if p.ran_out]

    clock.advance(10 - 0.001)
    assert ran_out() == (0, [])
    clock.advance(0.001)
    assert ran_out() == (1, [short[0].id])
    clock.advance(20)
    assert ran_out() == (2, [m.id for m in short])
    assert (queue.stats().leased, queue.peek(state="ready")) == (3, ())
    long[0].ack()
    again = queue.receive(10)
    assert ({m.id for m in again}, ran_out()) == ({m.id for m in short}, (0, []))


def test_peek_by_state_and_channel(queue):
    sent(queue, "a1", "a2", channel="a")
    sent(queue, "b1", channel="b")
    sent(queue, "b2", channel="b", delay_seconds=5)
    queue.receive(1)

    def seen(**which):
        return [m.payload.decode() for m in queue.peek(**which)]

    assert seen() == ["a1", "a2", "b1", "b2"]
    assert seen(state="leased") == ["a1"]
    assert seen(state="ready") == ["a2", "b1"]
    assert seen(state="scheduled") == ["b2"]
    assert seen(channel="a") == ["a1", "a2"]
    assert seen(channel="b", state="ready") == ["b1"]
    assert seen(channel="") == []


def test_peek_page_by_page(queue):
    ids = queue.send_many([message(str(n)) for n in range(25)]).ids
    assert [m.id for m in queue.peek()] == list(ids[:20])
    seen, after = [], 0
    while page := queue.peek(7, after_id=after):
        seen += [m.id for m in page]
        after = page[-1].id
    assert seen == list(ids)


@each(
    "options",
    [
        {"limit": 0},
        {"limit": 1_001},
        {"limit": True},
        {"state": "done"},
        {"state": 5},
        {"channel": 5},
        {"channel": "\x00"},
        {"after_id": -1},
        {"after_id": "5"},
        {"after_id": 2**63},
    ],
)
def test_a_wrong_question_is_refused(queue, options):
    with pytest.raises(UsageError):
        queue.peek(**options)


# --- stats ---


@pytest.mark.driving
def test_counts_follow_a_message_through_its_life(queue, clock):
    def now():
        s = counts(queue)
        return s.scheduled, s.ready, s.leased, s.done, s.dead, s.cancelled

    assert now() == (0, 0, 0, 0, 0, 0)
    sent(queue, "a", delay_seconds=1)
    assert now() == (1, 0, 0, 0, 0, 0)
    clock.advance(1)
    got = one(queue)
    assert now() == (0, 0, 1, 0, 0, 0)
    got.release()
    assert now() == (0, 1, 0, 0, 0, 0)
    one(queue).fail()
    assert now() == (1, 0, 0, 0, 0, 0)
    clock.advance(1)
    one(queue).ack()
    assert now() == (0, 0, 0, 1, 0, 0)
    sent(queue, "b")
    one(queue).fail(retry=False)
    assert now() == (0, 0, 0, 1, 1, 0)
    sent(queue, "c")
    queue.purge()
    assert now() == (0, 0, 0, 1, 1, 1)


def test_the_oldest_ready_message(queue, clock):
    assert queue.stats().oldest_ready_ms is None
    sent(queue, "a")
    clock.advance(5)
    sent(queue, "b")
    clock.advance(2)
    assert queue.stats().oldest_ready_ms == 7_000
    (a,) = queue.receive()
    assert queue.stats().oldest_ready_ms == 2_000
    queue.receive()
    assert queue.stats().oldest_ready_ms is None
    a.release()
    assert queue.stats().oldest_ready_ms == 7_000


@pytest.mark.driving
def test_channels_by_size_with_what_blocks_them(queue, clock):
    sent(queue, *"123", channel="open")
    sent(queue, *"12345", channel="full")
    sent(queue, *"1234", channel="slow")
    sent(queue, *"12", channel="held")
    queue.channel("full").set_policy(Policy(max_concurrency=1))
    queue.channel("slow").set_policy(Policy(rate=Rate(1, per_seconds=60)))
    queue.channel("held").pause()
    for _ in range(4):
        queue.receive(1)
    stats = {s.channel: s for s in queue.channels()}
    assert [s.channel for s in queue.channels()] == ["full", "slow", "open", "held"]
    assert (stats["full"].leased, stats["full"].ready) == (1, 4)
    assert stats["full"].blocked == "concurrency"
    assert stats["slow"].blocked == "rate"
    assert stats["held"].blocked == "paused"
    assert stats["open"].blocked is None
    clock.advance(5)
    assert {s.oldest_ready_ms for s in queue.channels()} == {5_000}
    assert len(queue.channels(2)) == 2


def test_a_fifo_channel_that_waits_for_its_head(door):
    queue = door.fresh(fifo=True)
    sent(queue, "1", "2", channel="a")
    one(queue)
    (stats,) = queue.channels()
    assert (stats.leased, stats.ready, stats.blocked) == (1, 1, "fifo")


def test_a_fifo_channel_whose_head_backs_off(door, clock):
    queue = door.fresh(fifo=True)
    sent(queue, "1", "2", channel="a")
    one(queue).fail("no", delay_seconds=5)
    (stats,) = queue.channels()
    assert (stats.scheduled, stats.ready, stats.blocked) == (1, 1, "fifo")
    clock.advance(5)
    assert queue.channels()[0].blocked is None


def test_a_head_that_waits_for_a_person_holds_those_behind_it(door):
    queue = door.fresh(fifo=True, max_attempts=1, on_exhausted="block")
    sent(queue, "1", "2", channel="a")
    one(queue).fail("no")
    assert queue.channels()[0].blocked == "exhausted"
    sent(queue, "first", channel="a", priority=-1)
    assert queue.channels()[0].blocked is None
    assert one(queue).text() == "first"


def test_a_paused_queue_holds_all_channels(queue):
    sent(queue, "1", channel="a")
    sent(queue, "2", channel="b")
    sent(queue, "later", channel="c", delay_seconds=5)
    queue.channel("b").set_policy(Policy(max_concurrency=1))
    queue.pause()
    blocked = {s.channel: s.blocked for s in queue.channels()}
    assert blocked == {"a": "paused", "b": "paused", "c": None}
    queue.resume()
    assert {s.blocked for s in queue.channels()} == {None}


@each("limit", [0, -1, True, "5", 10**9])
def test_a_wrong_number_of_channels_is_refused(queue, limit):
    with pytest.raises(UsageError):
        queue.channels(limit)


# --- purge ---


def test_purge_cancels_what_waits_and_leaves_what_is_out(queue):
    sent(queue, "out", "b")
    sent(queue, "later", delay_seconds=5)
    (out,) = queue.receive(1)
    assert queue.purge() == Purged(2)
    assert is_empty(queue)
    stats = counts(queue)
    assert (stats.cancelled, stats.leased) == (2, 1)
    assert out.ack() == Acked()
    assert queue.purge() == Purged(0)


def test_purge_by_channel_and_state(queue):
    for channel in "ab":
        sent(queue, "ready", channel=channel)
        sent(queue, "later", channel=channel, delay_seconds=5)
    assert queue.purge(channel="a", state="scheduled") == Purged(1)
    assert queue.purge(channel="nosuch") == Purged(0)
    assert queue.purge(state="ready") == Purged(2)
    assert [(m.channel, m.state) for m in queue.peek()] == [("b", "scheduled")]
    assert queue.purge(channel="b") == Purged(1)
    assert counts(queue).cancelled == 4


def test_purge_of_what_is_out_takes_the_leases(queue):
    sent(queue, "a", "b")
    (a,) = queue.receive(1)
    assert queue.purge(state="leased") == Purged(1)
    assert a.ack() == LeaseLost("gone")
    assert texts(queue.receive(10)) == ["b"]
    assert counts(queue).cancelled == 1


def test_purge_of_very_many(queue):
    for _ in range(3):
        queue.send_many([message("x", channel=str(n % 3)) for n in range(9_000)])
    assert queue.purge() == Purged(27_000)
    stats = queue.stats()
    assert (stats.cancelled, stats.ready) == (27_000, 0)


@pytest.mark.parametrize("options", [{"state": "done"}, {"state": ""}, {"channel": 5}])
def test_a_wrong_purge_is_refused(queue, options):
    sent(queue, "a")
    with pytest.raises(UsageError):
        queue.purge(**options)
    assert counts(queue).ready == 1

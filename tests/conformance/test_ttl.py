"""Time to live: never handed out at or after `expires_at`, and what is leased is left alone."""

import pytest

from tests.conformance.steps import (
    counts,
    do,
    ending,
    finished,
    grave_of,
    is_empty,
    maintained,
    one,
    one_by_one,
    run,
    sent,
    taken,
    texts,
)
from tests.support.each import each
from turnabout import Acked, Policy, UsageError, message
from turnabout.words.verbs import RedriveStart, RedriveStep


def mortal(queue, text="a", ttl=5, **options):
    """Send a message that lives so long; its id."""
    return queue.send_many([message(text, ttl_seconds=ttl, **options)]).id


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.driving
def test_the_last_millisecond_delivers_and_the_next_does_not(door, clock, fifo, limited):
    queue = door.fresh(fifo=fifo, policy=Policy(max_concurrency=5) if limited else Policy())
    for early in (True, False):
        number = mortal(queue)
        clock.advance(ms=5_000 - early)
        assert [m.id for m in queue.receive(10)] == ([number] if early else [])
    assert ending(queue, number).outcome == "expired"
    assert ending(queue, number).finished_at == clock.now
    assert counts(queue).expired == 1


def test_the_queue_s_time_holds_unless_the_message_has_its_own(door, clock):
    queue = door.fresh(ttl_seconds=10)
    numbers = [*sent(queue, "queue's"), mortal(queue, "short", 5), mortal(queue, "long", 20)]
    until = {p.id: p.expires_at for p in queue.peek()}
    assert [until[n] - clock.now for n in numbers] == [10_000, 5_000, 20_000]
    clock.advance(10)
    assert texts(queue.receive(10)) == ["long"]
    assert counts(queue).expired == 2


def test_without_one_a_message_waits_for_ever(queue, clock):
    sent(queue, "a")
    assert queue.peek()[0].expires_at is None
    clock.advance(400 * 86_400)
    assert texts([one(queue)]) == ["a"]


def test_a_changed_setting_holds_for_the_next_send(queue, clock):
    sent(queue, "old")
    queue.update(ttl_seconds=5)
    sent(queue, "new")
    clock.advance(5)
    assert texts(queue.receive(10)) == ["old"]


@pytest.mark.driving
def test_maintain_ends_what_nobody_receives(queue, clock):
    number = mortal(queue)
    clock.advance(5)
    maintained(queue, 2)
    assert queue.peek() == ()
    assert counts(queue).expired == 1
    assert [(row.id, row.outcome) for row in finished(queue)] == [(number, "expired")]


def test_a_paused_queue_ends_them_too(queue, clock):
    mortal(queue)
    queue.pause()
    clock.advance(5)
    maintained(queue, 2)
    assert counts(queue).expired == 1


def test_a_lease_that_runs_is_left_alone(queue, clock):
    number = mortal(queue)
    held = one(queue, lease_seconds=60)
    clock.advance(30)
    maintained(queue, 2)
    assert is_empty(queue)
    assert ending(queue, number) is None
    assert held.extend().lease_until > clock.now
    assert held.ack() == Acked()
    assert (counts(queue).done, counts(queue).expired) == (1, 0)


COMES_BACK = {
    "release": lambda m: m.release(),
    "defer": lambda m: m.defer(delay_seconds=1),
    "fail": lambda m: m.fail("no"),
    "crash": lambda _: None,  # its lease runs out
}


@each("fifo", [False, True])
@each("how", COMES_BACK)
@each("late", [False, True])
def test_what_comes_back_too_late_is_not_delivered_again(door, clock, how, late, fifo):
    queue = door.fresh(fifo=fifo, lease_seconds=60)
    number = mortal(queue, ttl=40)
    held = one(queue)
    clock.advance(40 if late else 30)
    COMES_BACK[how](held)
    clock.advance(60)
    assert is_empty(queue)
    assert is_empty(queue)  # the first may only have seen that its lease is lost
    assert ending(queue, number).outcome == "expired"
    assert counts(queue).expired == 1


def test_a_scheduled_message_may_expire_before_it_is_due(queue, clock):
    number = mortal(queue, ttl=5, delay_seconds=10)
    clock.advance(10)
    assert is_empty(queue)
    assert ending(queue, number).outcome == "expired"


@pytest.mark.parametrize("limited", [False, True])
def test_thousands_that_expire_at_once_hide_nobody(door, clock, limited):
    queue = door.fresh(policy=Policy(max_concurrency=100) if limited else Policy())
    for _ in range(3):
        queue.send_many([message("old", ttl_seconds=5, channel=f"c{n % 7}") for n in range(1_000)])
    clock.advance(5)
    for n in range(7):
        sent(queue, "alive", channel=f"c{n}")
    got = []
    for _ in range(60):  # each receive ends a bounded share
        got += texts(queue.receive(5))
        if len(got) == 7:
            break
    assert got == ["alive"] * 7
    maintained(queue, 40)
    assert counts(queue).expired == 3_000
    assert len(queue.peek(100)) == 7


def test_a_receive_that_finds_only_expired_ones_does_not_sleep_over_the_rest(queue, clock):
    """What it has stepped over, or not yet ended, must not keep a live message waiting."""
    queue.send_many([message("old", ttl_seconds=5) for _ in range(2_000)])
    sent(queue, "alive")
    clock.advance(5)
    for _ in range(100):
        batch = queue.receive()
        if batch:
            break
        assert batch.retry_after_ms is not None, "a receiver would sleep for ever"
        clock.advance(ms=batch.retry_after_ms)
    assert texts(batch) == ["alive"]


def test_an_expired_head_lets_its_fifo_channel_go_on(door, clock):
    queue = door.fresh(fifo=True)
    mortal(queue, "head", channel="c")
    taken(queue, "next", channel="c").defer(delay_seconds=500)
    assert is_empty(queue)
    clock.advance(5)
    assert texts(one_by_one(queue)) == ["next"]


def test_an_empty_answer_tells_when_an_expiry_opens_a_channel(door, clock):
    queue = door.fresh(fifo=True)
    mortal(queue, "head", channel="c")
    taken(queue, "next", channel="c").defer(delay_seconds=500)
    began = clock.now
    while not (batch := queue.receive()):  # a receiver that sleeps as it is told
        assert 0 < batch.retry_after_ms <= 5_000
        clock.advance(ms=batch.retry_after_ms)
    assert texts(batch) == ["next"]
    assert clock.now == began + 5_000


def test_expired_ones_free_their_place(queue, clock):
    queue.channel("c").set_policy(Policy(max_size=1))
    mortal(queue, channel="c")
    clock.advance(5)
    queue.receive()
    sent(queue, "new", channel="c")
    assert texts(queue.receive(10)) == ["new"]


def test_the_dead_and_the_redriven_do_not_expire(door, clock):
    queue = door.fresh(max_attempts=1, ttl_seconds=5)
    grave = grave_of(queue)
    grave.update(ttl_seconds=5)
    mortal(queue)
    one(queue).fail()
    assert grave.peek()[0].expires_at is None
    clock.advance(100)
    maintained(grave, 2)
    maintained(queue, 2)
    assert counts(grave).ready == 1
    redrive = do(grave, RedriveStart)
    while redrive.state == "running":
        redrive = run(grave, RedriveStep(redrive.id))
    clock.advance(100)
    maintained(queue, 2)
    assert texts(queue.receive(10)) == ["a"]


@pytest.mark.parametrize("ttl", [0.001, 366 * 86_400])
def test_times_at_their_limits_are_taken(queue, clock, ttl):
    number = mortal(queue, ttl=ttl)
    assert {p.id: p.expires_at for p in queue.peek()} == {number: clock.now + round(ttl * 1000)}


@each("ttl", [0, -1, 366 * 86_400 + 1, "5", True, float("nan")])
def test_wrong_times_are_refused(queue, ttl):
    with pytest.raises(UsageError):
        message("x", ttl_seconds=ttl)
    with pytest.raises(UsageError):
        queue.update(ttl_seconds=ttl)

"""on_exhausted: what becomes of a message without attempts left, in each of four ways."""

import pytest

from tests.conformance.steps import (
    counts,
    ending,
    finished,
    grave_of,
    is_empty,
    maintained,
    one,
    one_by_one,
    sent,
    taken,
    texts,
)
from turnabout import (
    Dead,
    Deferral,
    LeaseLost,
    Policy,
    QueueNotFound,
    Retrying,
    UsageError,
    message,
)
from turnabout.words.outcomes import Blocked, Cancelled, NotWaiting, Retried

WAYS = ["fail", "refuse", "crash"]


def exhaust(queue, clock, how):
    """Use up the last attempt of the one message there is; the answer, if there is one."""
    match how:
        case "fail":
            return one(queue).fail("last")
        case "refuse":
            return one(queue).fail("last", retry=False)
        case _:
            one(queue, lease_seconds=1)
            clock.advance(1)
            queue.receive()
            return None


@pytest.fixture(params=WAYS)
def how(request):
    """How the last attempt is used up."""
    return request.param


# --- dead_letter: tests/conformance/test_fail.py has its story ---


@pytest.mark.driving
def test_a_named_dead_letter_queue_is_made_and_used(door, clock, how):
    name = door.name_of_a_queue()
    grave = door.mq.queue(f"{name}-shared")
    queues = [door.fresh(max_attempts=1, dead_letter=grave.name) for _ in range(2)]
    for queue in queues:
        sent(queue, queue.name)
        assert exhaust(queue, clock, how) in (Dead(grave.name), None)
    assert {p.origin.queue for p in grave.peek()} == {q.name for q in queues}
    assert counts(grave).sent == 2
    with pytest.raises(QueueNotFound):
        grave_of(queues[0]).settings()


def test_settings_name_it_only_if_it_was_named(door):
    queue, other = door.fresh(), door.name_of_a_queue()
    assert queue.settings().dead_letter is None
    assert queue.update(max_attempts=1).dead_letter is None
    assert queue.update(dead_letter=other).dead_letter == other
    assert queue.update(dead_letter=None).dead_letter is None
    assert taken(queue, "a").fail("no") == Dead(f"{queue.name}-dead")


@pytest.mark.driving
def test_the_dead_never_come_back_by_themselves(door):
    a, b, c = (door.fresh() for _ in "abc")
    a.update(dead_letter=b.name)
    b.update(dead_letter=c.name)
    for queue, wrong in ((a, a), (b, a), (c, a), (c, c)):
        with pytest.raises(UsageError, match="come back"):
            queue.update(dead_letter=wrong.name)
    new = door.name_of_a_queue()
    with pytest.raises(UsageError, match="come back"):
        door.mq.queue(new).create(dead_letter=new)
    assert new not in [entry.name for entry in door.mq.queues()]
    assert [q.settings().dead_letter for q in (a, b, c)] == [b.name, c.name, None]


def test_a_first_send_makes_a_dead_letter_queue_that_gives_up_on_nothing(door):
    plain = door.fresh()
    plain.delete()
    plain = door.mq.queue(plain.name)
    grave = grave_of(plain)
    grave.delete()
    for send in (
        lambda: grave.send("a"),
        lambda: grave.send("a", dedup_key="k"),
        lambda: grave.send_many([message("a")]),
    ):
        send()
        assert grave.settings().max_attempts is None
        grave.delete()
    grave.send("a")
    plain.send("b")
    assert grave.settings().max_attempts is None


def test_another_dead_letter_queue_holds_for_the_next_dead(door):
    queue = door.fresh(max_attempts=1)
    other = door.fresh()
    sent(queue, "a", "b")
    one_of, another = queue.receive(2)
    one_of.fail()
    queue.update(dead_letter=other.name)
    assert another.fail() == Dead(other.name)
    assert (counts(grave_of(queue)).ready, counts(other).ready) == (1, 1)


# --- drop ---


def test_a_dropped_message_ends_as_dead_in_history_only(door, clock, how):
    queue = door.fresh(on_exhausted="drop", max_attempts=1)
    (number,) = sent(queue, "a")
    assert exhaust(queue, clock, how) in (Dead(None), None)
    assert is_empty(queue)
    assert counts(queue).dead == 1
    assert ending(queue, number).outcome == "dead"
    assert [row.error for row in finished(queue)] == [None if how == "crash" else "last"]
    assert counts(grave_of(queue)).sent == 0


# --- block ---


@pytest.fixture
def blocked(door, clock, how):
    """A FIFO queue whose channel `a` is blocked by its head, with two more behind it."""
    queue = door.fresh(fifo=True, on_exhausted="block", max_attempts=2, backoff_seconds=0)
    sent(queue, "head", channel="a")
    if how != "refuse":
        assert isinstance(one(queue).fail("first"), Retrying)
    assert exhaust(queue, clock, how) in (Blocked(), None)
    sent(queue, "next", "last", channel="a")
    return queue


def test_a_blocked_channel_waits_and_the_others_do_not(blocked, clock):
    assert is_empty(blocked)
    sent(blocked, "b", channel="b")
    assert texts(one_by_one(blocked)) == ["b"]
    clock.advance(366 * 86_400)
    maintained(blocked, 3)
    assert is_empty(blocked), "no time opens it"
    stats = counts(blocked)
    assert (stats.leased, stats.dead, stats.scheduled + stats.ready) == (0, 0, 3)
    assert counts(grave_of(blocked)).sent == 0


@pytest.mark.driving
def test_a_blocked_channel_says_why(blocked, how):
    (channel,) = [c for c in blocked.channels() if c.channel == "a"]
    assert channel.blocked == "exhausted"
    head = blocked.peek()[0]
    assert head.payload == b"head"
    assert head.failures + head.crashes == (1 if how == "refuse" else 2)
    assert head.error == ("first" if how == "crash" else "last")
    assert ending(blocked, head.id) is None


def test_an_empty_answer_does_not_promise_the_blocked_one(blocked, clock):
    assert blocked.receive().retry_after_ms is None


def test_retry_opens_it_with_charges_forgotten(blocked, clock):
    head = blocked.peek()[0]
    assert blocked.retry((head.id,)) == (Retried(),)
    again = one(blocked)
    assert (again.text(), again.attempt) == ("head", head.attempt + 1)
    assert (again.failures, again.crashes) == (0, 0)
    assert is_empty(blocked)
    assert again.fail("new") == Retrying(clock.now), "it has attempts again"
    assert texts(one_by_one(blocked)) == ["head", "next", "last"]


def test_it_blocks_again_when_the_new_attempts_are_used_up(blocked):
    for _ in range(2):
        blocked.retry((blocked.peek()[0].id,))
        one(blocked).fail()
        assert one(blocked).fail("again") == Blocked()
        assert is_empty(blocked)


def test_cancel_opens_it_for_the_next(blocked):
    head = blocked.peek()[0]
    assert blocked.cancel((head.id,)) == (Cancelled(),)
    assert ending(blocked, head.id).outcome == "cancelled"
    assert texts(one_by_one(blocked)) == ["next", "last"]


def test_purging_opens_it(blocked):
    assert blocked.purge(channel="a").messages == 3
    sent(blocked, "new", channel="a")
    assert texts(one_by_one(blocked)) == ["new"]


@pytest.mark.driving
def test_old_receipts_of_a_blocked_message_are_stale(door, clock):
    queue = door.fresh(fifo=True, on_exhausted="block", max_attempts=1)
    held = taken(queue, "a")
    assert held.fail() == Blocked()
    for verb in (held.ack, held.fail, held.release, held.extend):
        outcome = verb()
        assert isinstance(outcome, LeaseLost)
        assert outcome.now in ("ready", "scheduled")
    (answer,) = queue.defer([Deferral(held.receipt)])
    assert isinstance(answer, LeaseLost)


def test_only_a_fifo_queue_can_block(door, queue):
    with pytest.raises(UsageError, match="fifo"):
        queue.update(on_exhausted="block")
    with pytest.raises(UsageError):
        queue.update(on_exhausted="explode")
    with pytest.raises(UsageError, match="fifo"):
        door.mq.queue(door.name_of_a_queue()).create(on_exhausted="block")
    assert queue.settings().on_exhausted == "dead_letter"


# --- dead_letter_channel ---


@pytest.mark.parametrize("fifo", [False, True])
def test_the_waiting_messages_of_its_channel_go_with_it(door, clock, how, fifo):
    queue = door.fresh(on_exhausted="dead_letter_channel", max_attempts=1, fifo=fifo)
    grave = grave_of(queue)
    numbers = sent(queue, "head", channel="a")
    held = one(queue, lease_seconds=1)
    numbers += sent(queue, "ready", channel="a")
    numbers += sent(queue, "later", channel="a", delay_seconds=60)
    sent(queue, "other", channel="b")
    if how == "crash":
        clock.advance(1)
        assert [m.channel for m in queue.receive(10)] == ["b"]
    else:
        assert held.fail("last", retry=how == "fail") == Dead(grave.name)
    buried = {p.id: p for p in grave.peek()}
    assert sorted(buried) == numbers
    reason = {"fail": "attempts", "refuse": "refused", "crash": "crashes"}[how]
    assert [buried[n].origin.reason for n in numbers] == [reason, "channel", "channel"]
    assert {p.origin.queue for p in buried.values()} == {queue.name}
    assert {p.state for p in buried.values()} == {"ready"}
    assert [ending(queue, n).outcome for n in numbers] == ["dead"] * 3
    assert counts(queue).dead == 3
    assert counts(grave).sent == 3
    assert sorted(texts(queue.receive(10))) == ([] if how == "crash" else ["other"])
    assert texts(one_by_one(grave)) == ["head", "ready", "later"]


def test_what_is_leased_stays(door):
    queue = door.fresh(on_exhausted="dead_letter_channel", max_attempts=1)
    sent(queue, "a", "b", "c")
    first, second = queue.receive(2)
    first.fail()
    assert counts(queue).leased == 1
    assert [p.payload for p in grave_of(queue).peek()] == [b"a", b"c"]
    second.defer()
    assert texts(one_by_one(queue)) == ["b"]


def test_a_long_channel_goes_whole(door):
    queue = door.fresh(on_exhausted="dead_letter_channel", max_attempts=1)
    queue.channel("a").set_policy(Policy(max_concurrency=1))
    queue.send_many([message(str(n), channel="a") for n in range(2_500)])
    one(queue).fail()
    assert counts(queue).dead == 2_500
    assert counts(grave_of(queue)).ready == 2_500
    sent(queue, "new", channel="a")
    assert texts(one_by_one(queue)) == ["new"], "its slot is free"


# --- retry, of messages that are not blocked ---


@pytest.mark.parametrize("fifo", [False, True])
def test_retry_makes_a_message_ready_now(door, clock, fifo):
    queue = door.fresh(fifo=fifo, backoff_jitter=0.0, backoff_seconds=100)
    failed, delayed = (
        *sent(queue, "failed", channel="a"),
        *sent(queue, "delayed", channel="b", delay_seconds=500),
    )
    one(queue).fail("no")
    assert is_empty(queue)
    assert queue.retry((failed, delayed)) == (Retried(), Retried())
    got = {m.id: m for m in queue.receive(10)}
    assert sorted(got) == [failed, delayed]
    assert (got[failed].failures, got[failed].attempt) == (0, 2)


@pytest.mark.driving
def test_retry_leaves_what_is_leased_or_gone(door, clock):
    queue = door.fresh(max_attempts=1)
    leased, done, dead = sent(queue, "leased", "done", "dead")
    held = {m.id: m for m in queue.receive(3)}
    held[done].ack()
    held[dead].fail()
    asked = (leased, done, dead, 2**62)
    assert queue.retry(asked) == (NotWaiting("leased"), *[NotWaiting("gone")] * 3)
    assert queue.retry(()) == ()
    held[leased].ack()
    assert counts(queue).done == 2


def test_a_retry_of_what_is_ready_forgets_its_charges(queue):
    taken(queue, "a").fail("no", delay_seconds=0)
    assert queue.retry((queue.peek()[0].id,)) == (Retried(),)
    assert one(queue).failures == 0

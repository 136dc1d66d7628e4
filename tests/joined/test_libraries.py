"""What every library's transaction does to messages: the same."""

from typing import Any

import pytest

import turnabout
from tests.joined.libraries import Connected
from turnabout import Failure, Policy


def business(joined: Connected) -> list[int]:
    ids = [row[0] for row in joined.execute("select id from business order by id")]
    joined.rollback()
    return ids


@pytest.mark.driving
@pytest.mark.share(8)
def test_a_commit_keeps_row_and_message(joined: Connected, mq: Any) -> None:
    joined.execute("insert into business values (1, 'a')")
    outcome = joined.queue("q").send({"n": 1})
    assert isinstance(outcome, turnabout.Sent)
    joined.commit()
    assert business(joined) == [1]
    (message,) = mq.queue("q").receive()
    assert (message.id, message.json()) == (outcome.id, {"n": 1})


@pytest.mark.driving
@pytest.mark.share(8)
def test_a_rollback_undoes_both(joined: Connected, mq: Any) -> None:
    mq.queue("q").create()
    joined.execute("insert into business values (1, 'a')")
    joined.queue("q").send("x")
    joined.rollback()
    assert business(joined) == []
    assert not mq.queue("q").receive()


def test_nothing_is_seen_before_the_commit(joined: Connected, mq: Any) -> None:
    mq.queue("q").create()
    joined.queue("q").send("x")
    assert not mq.queue("q").peek()
    joined.commit()
    assert len(mq.queue("q").peek()) == 1


def test_an_error_in_the_middle_undoes_what_came_before(joined: Connected, mq: Any) -> None:
    mq.queue("q").create()
    joined.execute("insert into business values (1, 'a')")
    joined.queue("q").send("x")
    with pytest.raises(Exception, match=r"(?i)unique"):
        joined.execute("insert into business values (1, 'again')")
    joined.rollback()
    assert business(joined) == []
    assert not mq.queue("q").peek()


@pytest.mark.driving
@pytest.mark.share(8)
def test_a_savepoint_undoes_its_part(joined: Connected, mq: Any) -> None:
    mq.queue("q").create()
    queue = joined.queue("q")
    kept = queue.send("kept")
    joined.execute("savepoint part")
    joined.execute("insert into business values (1, 'a')")
    queue.send("undone")
    joined.execute("rollback to savepoint part")
    also = queue.send("kept too")
    joined.commit()
    assert business(joined) == []
    assert [m.id for m in mq.queue("q").peek()] == [kept.id, also.id]


def test_a_refusing_outcome_leaves_the_transaction_as_it_was(joined: Connected, mq: Any) -> None:
    mq.queue("q").create(policy=Policy(max_size=1))
    queue = joined.queue("q")
    joined.execute("insert into business values (1, 'a')")
    assert isinstance(queue.send("fits", channel="c"), turnabout.Sent)
    assert isinstance(queue.send("does not", channel="c"), turnabout.ChannelFull)
    joined.commit()
    assert business(joined) == [1]
    assert len(mq.queue("q").peek()) == 1


def test_an_ack_is_part_of_it(joined: Connected, mq: Any) -> None:
    mq.queue("q").send("x")
    (message,) = mq.queue("q").receive()
    queue = joined.queue("q")
    joined.execute("insert into business values (1, 'a')")
    assert queue.ack([message.receipt]) == (turnabout.Acked(),)
    joined.rollback()
    assert len(mq.queue("q").peek(state="leased")) == 1
    assert queue.ack([message.receipt]) == (turnabout.Acked(),)
    joined.execute("insert into business values (2, 'b')")
    joined.commit()
    assert business(joined) == [2]
    assert mq.queue("q").peek() == ()
    assert queue.ack([message.receipt]) == (turnabout.LeaseLost("gone"),)


def test_the_other_endings_are_part_of_it(joined: Connected, mq: Any) -> None:
    """Defer, fail (for good, too), release and extend: rolled back, all is as before."""
    mq.queue("q").send_many(turnabout.message(str(n)) for n in range(5))
    receipts = [m.receipt for m in mq.queue("q").receive(5)]
    queue = joined.queue("q")

    def end() -> None:
        joined.execute("insert into business values (1, 'a')")
        queue.defer([turnabout.Deferral(receipts[0], 60_000, b"s")])
        queue.fail([Failure(receipts[1], "why"), Failure(receipts[2], "no", retry=False)])
        queue.release([receipts[3]])
        queue.extend([receipts[4]], lease_seconds=1000)

    before = mq.queue("q").peek(10)
    end()
    joined.rollback()
    assert mq.queue("q").peek(10) == before
    end()
    joined.commit()
    assert business(joined) == [1]
    states = {int(m.payload): m.state for m in mq.queue("q").peek(10)}
    assert states == {0: "scheduled", 1: "scheduled", 3: "ready", 4: "leased"}
    assert [m.payload for m in mq.queue("q-dead").peek()] == [b"2"]


def test_a_message_received_and_rolled_back_is_back_at_once(joined: Connected, mq: Any) -> None:
    mq.queue("q").send("x")
    queue = joined.queue("q")
    (message,) = queue.receive()
    assert (message.attempt, message.queue.name) == (1, "q")
    joined.rollback()
    (again,) = queue.receive()
    assert (again.id, again.attempt) == (message.id, 1)
    assert again.ack() == turnabout.Acked()
    joined.commit()
    assert not mq.queue("q").peek()


def test_a_queue_is_never_made_in_the_transaction(
    joined: Connected, mq: Any, library: tuple[str, str]
) -> None:
    if library[0] == "sqlite":  # it has one writer, so a new row keeps nobody waiting
        return
    joined.queue("new").send("x")
    mq.queue("new").send("y")  # would wait for the row of the queue, for ever
    joined.rollback()
    assert [m.payload for m in mq.queue("new").peek()] == [b"y"]


@pytest.mark.driving
@pytest.mark.share(8)
def test_everything_survives_the_way(joined: Connected, mq: Any) -> None:
    payload = bytes(range(256)) + b"%s %(p1)s $1 ::jsonb"
    name = "ça %s :p1 ' \" \\ {1,2} 🎉"
    joined.queue("q").send(
        payload, channel=name, priority=-3, headers={"ä%s": "'\\ ::jsonb"}, content_type="x/y"
    )
    joined.commit()
    queue = joined.queue("q")
    (message,) = queue.receive()
    assert (message.payload, message.channel, message.priority) == (payload, name, -3)
    assert (message.headers, message.content_type) == ({"ä%s": "'\\ ::jsonb"}, "x/y")
    message.defer(state=payload)
    joined.commit()
    (message,) = queue.receive()
    assert message.state == payload
    assert isinstance(message.fail(f"{name}\n%"), turnabout.Retrying)
    joined.commit()
    (peeked,) = mq.queue("q").peek()
    assert peeked.error == f"{name}\n%"


def life(queue: Any) -> list[str]:
    """All joinable verbs, and the kinds of what they answer."""
    seen: list[Any] = [queue.send("1"), queue.send("2", delay_seconds=60, headers={"a": "b"})]
    seen.append(
        queue.send_many(
            [
                turnabout.message("3", channel="c"),
                turnabout.message("4", channel="c", priority=1),
                turnabout.message(b"5", delay_seconds=9),
            ]
        )
    )
    messages = queue.receive(10)
    seen.append(sorted(m.text() for m in messages))
    first, second, third = sorted(messages, key=lambda m: m.text())
    seen += [first.extend(lease_seconds=100), first.release(), first.ack()]
    seen += [second.defer(delay_seconds=5, state=b"s"), second.defer()]
    seen += queue.fail([Failure(third.receipt, "why"), Failure(third.receipt, "twice")])
    again = queue.receive(10)
    seen += [len(again), *queue.ack([m.receipt for m in again] * 2)]
    seen += queue.fail([Failure(m.receipt, "no", retry=False) for m in queue.receive()])
    seen += [queue.send_many([]), queue.ack([])]
    channel = queue.channel("c")
    seen += [
        channel.set_policy(Policy(max_concurrency=2)),
        channel.change_policy(weight=3),
        channel.policy(),
        channel.clear_policy(),
        channel.policy(),
    ]
    return [
        repr(one) if isinstance(one, (int, list, Policy)) else type(one).__name__ for one in seen
    ]


@pytest.mark.driving
@pytest.mark.share(8)
def test_outcomes_are_those_of_the_plain_face(joined: Connected, mq: Any) -> None:
    plain = life(mq.queue("plain"))
    assert "LeaseLost" in plain
    assert life(joined.queue("joined")) == plain
    joined.commit()


def test_cancel_joins(joined: Connected, mq: Any) -> None:
    sent = mq.queue("q").send("x")
    queue = joined.queue("q")
    assert queue.cancel([sent.id]) == (turnabout.Cancelled(),)
    joined.rollback()
    assert len(mq.queue("q").peek()) == 1
    queue.cancel([sent.id])
    joined.commit()
    assert mq.queue("q").peek() == ()


def test_a_policy_is_part_of_it(joined: Connected, mq: Any) -> None:
    mq.queue("q").create()
    channel = joined.queue("q").channel("c")
    channel.set_policy(Policy(max_concurrency=2))
    joined.rollback()
    assert mq.queue("q").channel("c").policy() == Policy()
    channel.set_policy(Policy(max_concurrency=2))
    joined.commit()
    assert mq.queue("q").channel("c").policy() == Policy(max_concurrency=2)


@pytest.mark.driving
@pytest.mark.share(8)
def test_wake_is_heard_after_the_commit(joined: Connected, mq: Any) -> None:
    mq.queue("q").create()
    queue = joined.queue("q")
    queue.send("x")
    joined.commit()
    queue.wake()
    assert mq.queue("q").receive(wait_seconds=10)


@pytest.mark.driving
@pytest.mark.share(8)
def test_what_has_no_place_in_a_transaction_is_refused(joined: Connected, mq: Any) -> None:
    queue = joined.queue("q")
    with pytest.raises(turnabout.UsageError, match="leave wait_seconds out"):
        queue.receive(wait_seconds=1)
    with pytest.raises(turnabout.UsageError, match="stats does not run in your transaction"):
        queue.stats()
    with pytest.raises(turnabout.UsageError, match="already in a transaction"):
        queue.within(joined.handle)

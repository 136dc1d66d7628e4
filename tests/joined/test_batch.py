"""`batch()`: sends and policies are noted, and done together at the end of the block."""

from typing import Any

import pytest

import turnabout
import turnabout.aio
from turnabout import Policy
from turnabout.words.plan import BatchPlan
from turnabout.words.verbs import PolicySet, Send


def test_all_of_it_happens_at_the_end(door: Any) -> None:
    one, two = door.fresh(), door.fresh()
    with door.mq.batch() as batch:
        first = batch.queue(one.name).send({"n": 1}, channel="c")
        many = batch.queue(two.name).send_many([turnabout.message("a"), turnabout.message("b")])
        policy = batch.queue(one.name).channel("c").set_policy(Policy(max_concurrency=3))
        assert not one.peek()
    assert first.outcome == turnabout.Sent((one.peek()[0].id,))
    assert many.outcome.ids == tuple(m.id for m in two.peek())
    assert policy.outcome == one.channel("c").policy() == Policy(max_concurrency=3)


def test_a_missing_queue_is_made(door: Any) -> None:
    name = door.name_of_a_queue()
    with door.mq.batch() as batch:
        sent = batch.queue(name).send("x")
    assert isinstance(sent.outcome, turnabout.Sent)


def test_a_block_that_raises_does_nothing(door: Any) -> None:
    queue = door.fresh()
    with pytest.raises(ZeroDivisionError), door.mq.batch() as batch:  # noqa: PT012 - all of it
        sent = batch.queue(queue.name).send("x")
        raise ZeroDivisionError
    assert not queue.peek()
    with pytest.raises(turnabout.UsageError, match="read outcomes after it"):
        _ = sent.outcome


def test_an_error_undoes_all(door: Any) -> None:
    queue = door.fresh()
    nobody = door.name_of_a_queue()
    with pytest.raises(turnabout.QueueNotFound), door.mq.batch() as batch:  # noqa: PT012 - as above
        batch.queue(queue.name).send("x")
        batch.queue(nobody).channel("c").set_policy(Policy(weight=2))
    assert not queue.peek()


def test_an_outcome_that_refuses_undoes_nothing(door: Any) -> None:
    queue = door.fresh(policy=Policy(max_size=1))
    with door.mq.batch() as batch:
        fits = batch.queue(queue.name).send("1")
        full = batch.queue(queue.name).send("2")
    assert isinstance(fits.outcome, turnabout.Sent)
    assert isinstance(full.outcome, turnabout.ChannelFull)
    assert len(queue.peek()) == 1


def test_the_policy_holds_for_the_sends_beside_it(door: Any) -> None:
    queue = door.fresh()
    with door.mq.batch() as batch:
        sent = batch.queue(queue.name).send("x", channel="c")
        batch.queue(queue.name).channel("c").set_policy(Policy(paused=True))
    assert isinstance(sent.outcome, turnabout.Sent)
    assert not queue.receive()
    queue.channel("c").resume()
    assert len(queue.receive()) == 1


def test_waiting_receivers_hear_of_it(door: Any) -> None:
    queue = door.fresh()
    with door.mq.batch() as batch:
        batch.queue(queue.name).send("x")
    assert queue.receive(wait_seconds=5)


def test_nothing_noted_asks_nothing(door: Any) -> None:
    with door.mq.batch():
        pass


def test_a_batch_is_for_one_block(door: Any) -> None:
    made = door.mq.batch()
    with made as batch:
        pass
    with pytest.raises(turnabout.UsageError, match="make another"), made:
        pass
    with pytest.raises(turnabout.UsageError, match="the batch is over"):
        batch.queue("q").send("x")


def test_the_order_depends_on_names() -> None:
    plan = BatchPlan()
    b, a = plan.queue("b"), plan.queue("a")
    b.send("b1")
    b.channel("y").change_policy(weight=2)
    a.send("a1", channel="z")
    b.channel("x").clear_policy()
    a.send("a2", channel="c")
    b.channel("y").change_policy(weight=3)

    def said(verb: Any) -> str:
        if isinstance(verb, Send):
            return verb.messages[0].payload.decode()
        assert isinstance(verb, PolicySet)
        return f"{verb.channel} {verb.changes.get('weight')}"

    assert [said(verb) for verb in plan.close()] == ["a1", "a2", "x None", "y 2", "y 3", "b1"]


def test_bad_input_is_refused_where_it_is_said() -> None:
    plan = BatchPlan(max_payload_bytes=3)
    with pytest.raises(turnabout.UsageError, match="queue name"):
        plan.queue("no name")
    with pytest.raises(turnabout.UsageError, match="over the limit of 3"):
        plan.queue("q").send("four")
    with pytest.raises(turnabout.UsageError, match="over the limit of 3"):
        plan.queue("q").send_many([turnabout.message("four")])
    with pytest.raises(turnabout.UsageError, match="a policy is a Policy"):
        plan.queue("q").channel("c").set_policy({})  # type: ignore[arg-type]
    with pytest.raises(turnabout.UsageError, match="has no 'wait'"):
        plan.queue("q").channel("c").change_policy(wait=1)


async def test_on_asyncio(tmp_path: Any) -> None:
    async with turnabout.aio.connect(f"sqlite:///{tmp_path}/app.db") as mq:
        async with mq.batch() as batch:
            sent = batch.queue("q").send("x")
        assert (await mq.queue("q").peek())[0].id == sent.outcome.id

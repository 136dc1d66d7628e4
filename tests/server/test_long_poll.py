"""Receives that wait: one look for all, the first to ask is the first to be served."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.server.batching_support import Watched, message, settle, watched
from tests.server.yard import there
from tests.support.doors import START, Clock
from tests.support.loops import inside
from turnabout._async.upkeep import LOOK_TIMES_MAX
from turnabout.server import ServerOptions
from turnabout.server.batching import long_poll as module
from turnabout.server.batching.long_poll import LongPoll
from turnabout.server.batching.maintenance import Maintenance
from turnabout.server.tenants.admission import Admission
from turnabout.waiting.pacing import MAINTAIN_SECONDS
from turnabout.words import outcomes as o
from turnabout.words import verbs as v
from turnabout.words.administration import QueuesDue
from turnabout.words.entities import Failure, Outgoing, Shard
from turnabout.words.errors import Busy, Forbidden, QueueNotFound, Unavailable
from turnabout.words.policy import QueueSettings

LONG = 30.0


class Yard:
    """A queue `q`, and long polling over its store."""

    def __init__(self, store: Watched, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.long_poll = LongPoll(store)

    def receive(self, most: int = 1, wait: float = LONG, gone: Any = None, **more: Any) -> Any:
        verb = v.Receive("q", most, more.pop("lease_ms", 60_000), **more)
        return asyncio.ensure_future(self.long_poll.receive(verb, wait, gone))

    async def waiting(self, count: int, most: int = 1, **more: Any) -> list[Any]:
        """So many who wait, and were looked for."""
        tasks = [self.receive(most, **more) for _ in range(count)]
        async with asyncio.timeout(10):
            while len(self.long_poll._waiting) < count:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await self.quiet()
        return tasks

    async def quiet(self) -> None:
        """Until the last look is over and nobody looks any more."""
        looks = -1
        while looks != len(self.looks):
            looks = len(self.looks)
            await asyncio.sleep(0.03)
            await settle()  # after a pause of the machine all is still to come

    async def send(self, *payloads: str, channel: str = "", **more: Any) -> None:
        messages = tuple(message(one, channel, **more) for one in payloads)
        await self.store.run(v.Send("q", messages))

    async def counts(self) -> tuple[int, int]:
        """Ready and leased."""
        (stats,) = await self.store.run(v.Stats("q"))
        return stats.ready, stats.leased

    @property
    def looks(self) -> list[v.Receive]:
        return self.store.of(v.Receive)


@asynccontextmanager
async def yard() -> AsyncIterator[Yard]:
    clock = Clock()
    async with watched(clock) as store:
        await store.run(v.QueueCreate("q", QueueSettings()))
        made = Yard(store, clock)
        try:
            yield made
        finally:
            made.long_poll.close()
            await settle()


in_a_yard = inside(yard)


def payloads(received: o.Received) -> str:
    return b"".join(delivery.payload for delivery in received.deliveries).decode()


@in_a_yard
async def test_what_is_there_comes_at_once_to_a_crowd_in_the_order_of_asking(yard: Yard) -> None:
    await yard.send(*"abcdef")
    got = await asyncio.gather(*(yard.receive(most, 0.0) for most in (1, 2, 5, 1)))
    assert [payloads(one) for one in got] == ["a", "bc", "def", ""]
    assert yard.looks[0].max_messages == 9
    assert len(yard.looks) == 2  # one more for the last, who is told when to ask again


@in_a_yard
async def test_empty_says_when_to_ask_again(yard: Yard) -> None:
    await yard.send("later", delay_ms=5_000)
    assert await yard.receive(1, 0.0) == o.Received((), 5_000)
    assert (await yard.receive(1, 0.01)).retry_after_ms in range(4_900, 5_001)


@in_a_yard
async def test_one_message_wakes_one_of_many_and_costs_one_look(yard: Yard) -> None:
    tasks = await yard.waiting(500)
    before = len(yard.looks)
    await yard.send("a")
    done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    await yard.quiet()
    assert payloads(await tasks[0]) == "a"
    assert (len(done), len(waiting)) == (1, 499)
    assert len(yard.looks) == before + 1
    await yard.send(*"bcd")
    assert [payloads(await task) for task in tasks[1:4]] == ["b", "c", "d"]
    yard.long_poll.close()
    assert {await task for task in tasks[4:]} == {o.Received(())}


@in_a_yard
async def test_the_round_robin_goes_on_from_poll_to_poll(yard: Yard) -> None:
    for channel in "abc":
        await yard.send(channel, channel, channel, channel=channel)
    got = [payloads(await yard.receive(2, 0.0)) for _ in range(4)]
    assert got == ["ab", "ca", "bc", "ab"]


@in_a_yard
async def test_shards_and_leases_have_looks_of_their_own(yard: Yard) -> None:
    await yard.send("x")
    got = await asyncio.gather(
        yard.receive(1, 0.0, shard=Shard(0, 2)),
        yard.receive(1, 0.0, shard=Shard(1, 2)),
        yard.receive(1, 0.0, lease_ms=5_000),
    )
    assert sorted(map(payloads, got)) == ["", "", "x"]
    assert len(yard.looks) == 3


# --- who goes away --------------------------------------------------------------------------------


async def _yes() -> bool:
    return True


@in_a_yard
async def test_one_who_has_gone_is_passed_over(yard: Yard) -> None:
    (gone,) = await yard.waiting(1, gone=_yes)
    next_ = yard.receive()
    await asyncio.sleep(module.YOUNG_SECONDS)
    await yard.send("a")
    assert payloads(await next_) == "a"
    assert await gone == o.Received(())


@in_a_yard
async def test_what_comes_only_for_one_who_has_gone_is_released(yard: Yard) -> None:
    (gone,) = await yard.waiting(1, gone=_yes)
    await asyncio.sleep(module.YOUNG_SECONDS)
    await yard.send("a")
    assert await gone == o.Received(())
    await yard.quiet()
    assert await yard.counts() == (1, 0)
    delivery = (await yard.receive(1, 0.0)).deliveries[0]
    assert (delivery.failures, delivery.crashes) == (0, 0)


@in_a_yard
async def test_one_who_has_gone_is_noticed_while_nothing_comes(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(module, "YOUNG_SECONDS", 0.0)
    (gone, stays) = [*await yard.waiting(1, gone=_yes), yard.receive()]
    assert await gone == o.Received(())
    assert not stays.done()


@in_a_yard
async def test_what_is_under_way_to_a_cancelled_task_is_released(yard: Yard) -> None:
    await yard.send(*"ab")
    yard.store.hold()
    first, second = yard.receive(1, 0.0), yard.receive(1, 0.0)
    await yard.store.came.wait()
    first.cancel()
    yard.store.open.set()
    assert payloads(await second) == "b"
    with pytest.raises(asyncio.CancelledError):
        await first
    await yard.quiet()
    assert await yard.counts() == (1, 1)


# --- what goes wrong ------------------------------------------------------------------------------


@in_a_yard
async def test_a_missing_queue_is_no_place_to_wait(yard: Yard) -> None:
    with pytest.raises(QueueNotFound):
        await yard.long_poll.receive(v.Receive("no", 1), LONG, None)
    assert not yard.long_poll._shared.waiters


@in_a_yard
async def test_only_so_many_may_wait(yard: Yard) -> None:
    admission = Admission(ServerOptions(max_polls=2))
    yard.long_poll = LongPoll(yard.store, admission)
    tasks = await yard.waiting(2)
    with pytest.raises(Busy):
        await yard.receive()
    assert await yard.receive(1, 0.0) == o.Received(())  # who doesn't wait needs no place
    await yard.send(*"abc")
    assert [payloads(await task) for task in tasks] == ["a", "b"]
    assert payloads(await yard.receive()) == "c"
    assert admission.waiting == 0


@in_a_yard
async def test_when_the_server_closes_nobody_waits_any_more(yard: Yard) -> None:
    tasks = await yard.waiting(50)
    yard.long_poll.close()
    assert {await task for task in tasks} == {o.Received(())}
    assert await yard.receive() == o.Received(())
    await yard.send("a")
    assert payloads(await yard.receive()) == "a"


# --- maintenance ---------------------------------------------------------------------------------


@in_a_yard
async def test_every_queue_is_maintained_in_turn_though_nobody_receives(yard: Yard) -> None:
    for name in "abc":
        await yard.store.run(v.QueueCreate(name, QueueSettings()))
    for _ in range(12):
        await yard.long_poll.maintenance.step()
    turns = [verb.queue for verb in yard.store.of(v.Maintain)]
    assert turns == ["a", "a-dead", "b", "b-dead", "c", "c-dead", "q", "q-dead", *turns[:3]]


@in_a_yard
async def test_a_queue_in_which_something_is_due_is_maintained_at_once(yard: Yard) -> None:
    keeper = yard.long_poll.maintenance
    keeper.upkeep._last = "z"  # none has its turn
    for name in ("due", "held", "idle"):
        await yard.store.run(v.QueueCreate(name, QueueSettings()))
    await yard.store.run(v.Send("due", (message("a", delay_ms=1_000),)))
    await yard.store.run(v.Send("held", (message("a"),)))
    await yard.store.run(v.Receive("held", 1, 1_000))
    await keeper.step()
    assert not yard.store.of(v.Maintain)
    yard.clock.now += 1_000
    keeper.upkeep._last = "z"
    await keeper.step()
    assert not yard.store.of(v.Maintain), "one look a second"
    keeper.upkeep._last = "z"
    passed(keeper, MAINTAIN_SECONDS)
    await keeper.step()
    assert {verb.queue for verb in yard.store.of(v.Maintain)} == {"due", "held"}


def passed(keeper: Maintenance, seconds: float) -> None:
    """That long ago was each queue maintained, and looked for what is due."""
    for name in keeper._shared.rounds._maintained:
        keeper._shared.rounds._maintained[name] -= seconds
    # (A look that took long, on a busy machine, is followed by a longer pause.)
    keeper.upkeep._look_at[False] -= seconds * LOOK_TIMES_MAX


@in_a_yard
async def test_a_queue_that_is_received_from_is_maintained_once_a_second(yard: Yard) -> None:
    await yard.store.run(v.QueueCreate("other", QueueSettings()))
    keeper = yard.long_poll.maintenance
    for _ in range(3):
        await yard.receive(1, 0.0)
        keeper.upkeep._last = "z"  # none has its turn
        await keeper.step()
    assert not yard.store.of(v.Maintain), "seen for the first time: not yet"
    passed(keeper, MAINTAIN_SECONDS)
    for _ in range(3):
        await yard.receive(1, 0.0)
    assert not yard.store.of(v.Maintain), "no client waits for it"
    for _ in range(3):
        keeper.upkeep._last = "z"
        await keeper.step()
    assert yard.store.of(v.Maintain) == [v.Maintain("q")]


@in_a_yard
async def test_what_the_owner_may_not_look_at_keeps_nobody_from_upkeep(yard: Yard) -> None:
    def forbid(verb: Any) -> None:
        if isinstance(verb, QueuesDue):
            raise Forbidden("no")

    yard.store.before = forbid
    keeper = yard.long_poll.maintenance
    await yard.receive(1, 0.0)
    await keeper.step()
    passed(keeper, MAINTAIN_SECONDS)
    await yard.receive(1, 0.0)
    await keeper.step()
    assert yard.store.of(v.Maintain) == [v.Maintain("q")]


@in_a_yard
async def test_a_receive_lets_nobody_wait_for_a_schedule(yard: Yard) -> None:
    yard.long_poll.maintenance._shared.watch.found(any_there=True, more_due=True)
    await yard.receive(1, 0.0)
    assert not yard.store.of(v.ScheduleList)


@in_a_yard
async def test_a_queue_that_is_gone_does_not_fail_for_ever(yard: Yard) -> None:
    keeper = yard.long_poll.maintenance
    keeper._shared.rounds.was_maintained("gone", Unavailable("no"))
    assert keeper.failing == 1
    await keeper.step()
    assert keeper.failing == 0


@in_a_yard
async def test_a_schedule_is_fired_though_nobody_receives(yard: Yard) -> None:
    from turnabout.words.schedules import Schedule

    schedule = Schedule("s", "q", Outgoing(b"tick"), every_ms=1_000, missed="once")
    await yard.store.run(v.ScheduleSet(schedule, START + 1_000))
    yard.clock.now += 1_500
    keeper = yard.long_poll.maintenance
    keeper._shared.watch.found(any_there=True, more_due=True)
    await keeper.step()
    assert await yard.counts() == (1, 0)


@pytest.mark.parametrize("left_by", ["this server", "another"])
@there(auth="none")
async def test_a_redrive_is_taken_to_its_end_though_nobody_receives(one, left_by) -> None:
    """By the server that was asked for it; or that comes after one that has gone."""
    dead = QueueSettings(max_attempts=1)
    await one.store.run(v.QueueCreate("q", dead))
    for _ in range(3):
        await one.store.run(v.Send("q", tuple(Outgoing(b"x") for _ in range(500))))
        got = (await one.store.run(v.Receive("q", 500))).deliveries
        await one.store.run(v.Fail("q", tuple(Failure(m.receipt, "no") for m in got)))
    keeper = one.context.long_poll.maintenance
    task = asyncio.ensure_future(keeper.run_redrives())
    if left_by == "another":
        await one.store.run(v.RedriveStart("q-dead"))
        await keeper.step()
    else:
        answer = await one.ask("POST", "/v1/queues/q-dead/redrives", b"{}")
        assert answer.status == 200
    async with asyncio.timeout(20):
        while keeper._redrives:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    (redrive,) = await one.store.run(v.RedriveList())
    assert (redrive.state, redrive.moved) == ("done", 1_500)
    assert not keeper._redrives
    task.cancel()

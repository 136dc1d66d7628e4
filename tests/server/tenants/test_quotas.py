"""What a namespace may use: requests a second, messages, bytes."""

import asyncio
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from tests.server.yard import Seconds, Yard, there, ticking
from tests.support import postgres
from tests.support.each import each
from turnabout import wire
from turnabout.server.tenants.quotas import (
    MEASURE_SECONDS,
    MEASURE_SHARE,
    QUIET_LOOKS,
    Bucket,
    NamespaceUsage,
)
from turnabout.server.verbs import Namespace, NamespaceSet
from turnabout.words import verbs as v
from turnabout.words.administration import QueueTotals, Totals
from turnabout.words.entities import Outgoing
from turnabout.words.errors import Busy, Disconnected, QuotaExceeded, TooManyRequests, Uncertain
from turnabout.words.outcomes import ChannelFull, Sent
from turnabout.words.policy import Policy, QueueSettings
from turnabout.words.records import Result
from turnabout.words.schedules import Schedule


def send(count: int = 1, size: int = 1, queue: str = "jobs") -> v.Send:
    return v.Send(queue, (Outgoing(b"x" * size),) * count)


# --- requests a second ---------------------------------------------------------------------------


def test_a_second_s_worth_at_once_and_then_one_after_another():
    bucket = Bucket(10, 0.0)
    assert [bucket.take(0.0) for _ in range(10)] == [0.0] * 10
    assert bucket.take(0.0) == pytest.approx(0.1)
    assert bucket.take(0.06) == pytest.approx(0.04)
    assert bucket.take(0.1) == 0.0
    assert bucket.take(0.1) > 0
    assert [bucket.take(99.0) for _ in range(10)] == [0.0] * 10
    assert bucket.take(99.0) > 0


def test_whoever_waits_as_told_is_let_in():
    bucket, now, chance = Bucket(7, 0.0), 0.0, random.Random(7)
    for _ in range(500):
        wait = bucket.take(now)
        if wait:
            now += wait + 1e-9
            assert bucket.take(now) == 0.0
        now += chance.random() / 20


@pytest.mark.slow
@given(st.integers(1, 50), st.lists(st.floats(0, 0.5, allow_nan=False), max_size=200))
def test_no_span_has_more_than_its_rate_and_a_burst(per_second, pauses):
    bucket, now, let_in = Bucket(per_second, 0.0), 0.0, []
    for pause in pauses:
        now += pause
        if bucket.take(now) == 0.0:
            let_in.append(now)
    for first in range(len(let_in)):
        for last in range(first, len(let_in)):
            span = let_in[last] - let_in[first]
            assert last - first + 1 <= per_second + per_second * span + 1e-6


def test_a_clock_that_stands_or_goes_back_gives_nothing_away():
    bucket = Bucket(1, 10.0)
    assert bucket.take(10.0) == 0.0
    assert bucket.take(5.0) > 0
    assert bucket.take(5.0) > 0


@there()
async def test_too_many_requests_are_refused_for_all_tokens_of_the_namespace(one: Yard) -> None:
    first = await one.token("acme", requests_per_second=3)
    second, other = await one.token("acme"), await one.token("bob")
    answers = [await one.run(token, v.QueueList()) for token in (first, second, first, second)]
    assert [a.status for a in answers] == [200, 200, 200, 429]
    refused = wire.load_error(429, answers[3].body)
    assert isinstance(refused, TooManyRequests)
    assert refused.retryable
    assert refused.retry_after_seconds == pytest.approx(1 / 3, abs=0.01)
    assert answers[3].headers["retry-after"] == "1"
    assert (await one.run(other, v.QueueList())).status == 200
    one.seconds.now += 1 / 3 + 0.001
    assert (await one.run(first, v.QueueList())).status == 200
    assert (await one.run(first, v.QueueList())).status == 429


@there()
async def test_a_quota_that_was_changed_holds_after_some_seconds(one: Yard) -> None:
    token = await one.token("acme", requests_per_second=1)
    assert [(await one.run(token, v.QueueList())).status for _ in range(2)] == [200, 429]
    await one.store.run(NamespaceSet(Namespace("acme")))
    one.seconds.now += 5
    assert {(await one.run(token, v.QueueList())).status for _ in range(20)} == {200}


# --- messages and bytes --------------------------------------------------------------------------


url = postgres.either_url


async def test_messages_are_bounded_over_all_queues_of_the_namespace(url):
    async with ticking(url) as one:
        token = await one.token("acme", max_messages=5)
        other = await one.token("bob")
        await one.done(other, send(50))
        await one.done(token, send(3))
        await one.done(token, send(2, queue="mail"))
        answer = await one.run(token, send(1))
        assert (answer.status, answer.code) == (507, "quota_exceeded")
        with pytest.raises(QuotaExceeded, match=r"5 of 5 messages \(max_messages\)"):
            await one.done(token, send(1, queue="new"))
        (jobs, *_) = await one.done(token, v.Stats("jobs"))
        assert jobs.sent == 3
        assert "new" not in {q.name for q in await one.done(token, v.QueueList())}
        await one.done(token, v.Purge("jobs"))
        one.seconds.now += MEASURE_SECONDS + 0.1
        async with asyncio.timeout(60):  # the look that it starts may be too late for itself
            while (await one.run(token, send(1))).status != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_bytes_are_bounded(url):
    async with ticking(url) as one:
        token = await one.token("acme", max_bytes=1_000)
        await one.done(token, send(1, 600))
        with pytest.raises(QuotaExceeded, match=r"600 of 1,000 bytes \(max_bytes\), and 401 more"):
            await one.done(token, send(1, 401))
        await one.done(token, send(4, 100))
        with pytest.raises(QuotaExceeded):
            await one.done(token, send(1, 1))
        await one.done(token, send(1, 0))
        one.seconds.now += 60 * MEASURE_SHARE
        with pytest.raises(QuotaExceeded, match="1,000 of 1,000"):
            await one.done(token, send(1, 1))


async def test_a_batch_is_counted_whole(url):
    async with ticking(url) as one:
        token = await one.token("acme", max_messages=3)
        await one.done(token, send(1))
        caller = await one.context.caller(_shown(token))
        with pytest.raises(QuotaExceeded):
            await caller.run_transaction([send(1), v.Purge("jobs"), send(2, queue="mail")])
        stats = await one.done(token, v.Stats("jobs"))
        assert stats[0].ready == 1
        assert len(await caller.run_transaction([send(1), send(1, queue="mail")])) == 2


async def test_a_repeat_is_answered_though_the_quota_is_full(url):
    async with ticking(url) as one:
        token = await one.token("acme", max_messages=2)

        async def put(key: str, *texts: str) -> Any:
            body = json.dumps({"messages": [{"payload": {"text": text}} for text in texts]})
            given = (("Authorization", f"Bearer {token}"), ("Idempotency-Key", key))
            return await one.ask("POST", "/v1/queues/jobs/messages", body.encode(), *given)

        ids = json.loads((await put("k", "a", "b")).body)["ids"]
        again = await put("k", "a", "b")
        assert again.status == 200
        assert json.loads(again.body) == {"outcome": "sent", "ids": ids, "duplicates": [0, 1]}
        for refused in (await put("other", "a"), await put("k", "a", "b", "c")):
            assert (refused.status, refused.code) == (507, "quota_exceeded")
        keyed = Outgoing(b"a", dedup_key="k:0")
        caller = await one.context.caller(_shown(token))
        (sent,) = await caller.run_transaction([v.Send("jobs", (keyed,))])
        assert sent.ids == (ids[0],)
        with pytest.raises(QuotaExceeded, match=r"2 of 2 messages .* 1 more"):
            await caller.run_transaction([v.Send("jobs", (keyed,)), send(1)])
        (jobs,) = await one.done(token, v.Stats("jobs"))
        assert jobs.sent == 2


def _shown(token: str) -> Request:
    return Request({"type": "http", "headers": [(b"authorization", f"Bearer {token}".encode())]})


async def test_what_was_refused_does_not_count(url):
    async with ticking(url) as one:
        token = await one.token("acme", max_messages=4)
        settings = QueueSettings(policy=Policy(max_size=2))
        await one.done(token, v.QueueCreate("jobs", settings))
        for _ in range(5):
            outcome = await one.done(token, send(3))
            assert isinstance(outcome, ChannelFull)
        await one.done(token, send(2))
        await one.done(token, send(2, queue="mail"))


# --- how usage is known --------------------------------------------------------------------------


class Kept:
    """A store that holds so many messages, and answers when it is let."""

    def __init__(self, messages: int = 0) -> None:
        self.messages = messages
        self.looks = 0
        self.error: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def run(self, verb: Any) -> Any:
        assert verb == Totals("acme", bytes=False)
        self.looks += 1
        seen = self.messages  # as of the start of the look
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return (QueueTotals("acme/q", seen, 0, 0, 0, 0, None),)


def usage(most: int) -> tuple[NamespaceUsage, Kept, Seconds]:
    store, seconds = Kept(), Seconds()
    made = NamespaceUsage(store, seconds)  # pyright: ignore[reportArgumentType]
    made.quota = Namespace("acme", max_messages=most)
    return made, store, seconds


async def put(
    room: NamespaceUsage, store: Kept, count: int = 1, error: Exception | None = None
) -> None:
    """A send as the caller does it."""
    async with room.room([send(count)]) as outcomes:
        if error is not None:
            raise error
        store.messages += count
        outcomes.append(Sent((1,) * count))


async def test_a_look_a_second_is_enough() -> None:
    room, store, seconds = usage(1_000)
    for _ in range(50):
        await put(room, store)
    assert store.looks == 1
    seconds.now += MEASURE_SECONDS + 0.1
    for _ in range(50):
        await put(room, store)
    await asyncio.sleep(0)
    assert store.looks == 2
    seconds.now += QUIET_LOOKS * MEASURE_SECONDS + 0.1
    await asyncio.gather(*[put(room, store) for _ in range(50)])
    assert store.looks == 3


async def test_a_slow_look_is_taken_seldom_and_nobody_waits_for_it() -> None:
    room, store, seconds = usage(1_000)
    store.gate.clear()
    first = asyncio.ensure_future(put(room, store))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    seconds.now += 0.5  # it takes half a second
    store.gate.set()
    await first
    seconds.now += MEASURE_SHARE * 0.5 - 1
    await put(room, store)
    assert store.looks == 1
    seconds.now += 2
    store.gate.clear()
    await put(room, store)  # does not wait
    await asyncio.sleep(0)
    assert store.looks == 2
    await put(room, store)
    store.gate.set()
    await asyncio.sleep(0)


async def test_what_is_let_in_during_a_look_is_not_forgotten() -> None:
    room, store, seconds = usage(10)
    await put(room, store, 4)
    seconds.now += MEASURE_SECONDS + 0.1
    store.gate.clear()
    await put(room, store, 3)  # begins a look that saw 4 or 7
    await asyncio.sleep(0)
    await put(room, store, 3)
    with pytest.raises(QuotaExceeded):
        await put(room, store)
    store.gate.set()
    for _ in range(5):
        await asyncio.sleep(0)
    with pytest.raises(QuotaExceeded):
        await put(room, store)
    store.messages = 9  # somebody acked one
    seconds.now += 3 * MEASURE_SECONDS
    await put(room, store)
    assert store.messages == 10


async def test_a_send_under_way_counts_beside_the_look() -> None:
    room, store, seconds = usage(10)
    async with room.room([send(6)]) as outcomes:
        seconds.now += 3 * MEASURE_SECONDS
        await put(room, store, 2)  # a look that does not see the six yet
        with pytest.raises(QuotaExceeded):
            await put(room, store, 3)
        outcomes.append(Sent((1,)))
        store.messages += 6
    with pytest.raises(QuotaExceeded):
        await put(room, store, 3)
    await put(room, store, 2)


async def test_a_send_that_is_refused_after_a_look_leaves_no_trace_in_it() -> None:
    room, store, seconds = usage(10)
    async with room.room([send(6)]):  # it has no outcome that is Sent
        seconds.now += 3 * MEASURE_SECONDS
        await put(room, store, 2)
    await put(room, store, 8)


@each(("error", "counts"), [(Busy("x"), False), (Uncertain("x"), True), (ValueError("x"), False)])
async def test_what_did_not_happen_does_not_count_and_what_may_have_does(error, counts) -> None:
    room, store, _ = usage(10)
    with pytest.raises(type(error)):
        await put(room, store, 8, error)
    if counts:
        with pytest.raises(QuotaExceeded):
            await put(room, store, 8)
    else:
        await put(room, store, 8)


async def test_a_look_that_fails_is_told_and_taken_again() -> None:
    room, store, seconds = usage(10)
    store.error = Disconnected("gone")
    for _ in range(2):
        with pytest.raises(Disconnected):
            await put(room, store)
    store.error = None
    await put(room, store, 10)
    with pytest.raises(QuotaExceeded):
        await put(room, store)
    assert store.looks == 3
    for _ in range(2):  # and what was let in before counts no longer
        store.messages = 0
        seconds.now += 3 * MEASURE_SECONDS
        await put(room, store, 10)


async def test_one_who_gives_up_waiting_leaves_the_look_to_the_others() -> None:
    room, store, _ = usage(10)
    store.gate.clear()
    first, second = (asyncio.ensure_future(put(room, store)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    store.gate.set()
    await second
    assert store.looks == 1
    assert store.messages == 1


async def test_processes_together_pass_a_quota_by_what_they_take_in_between_looks(url):
    async with ticking(url) as one:
        token = await one.token("acme", max_messages=10)
        await one.done(token, send(1))
        await one.store.run(send(9, queue="acme/jobs"))  # another server
        await one.done(token, send(9))
        one.seconds.now += QUIET_LOOKS * MEASURE_SECONDS + 0.1
        with pytest.raises(QuotaExceeded, match="19 of 10"):
            await one.done(token, send(1))


# --- schedules -----------------------------------------------------------------------------------


async def test_what_a_schedule_sends_obeys_the_quota_and_is_counted(url):
    async with ticking(url) as one:
        acme, bob = await one.token("acme", max_messages=2), await one.token("bob")
        for token in (acme, bob):
            tick = Schedule("tick", "jobs", Outgoing(b"x"), every_ms=1_000)
            await one.done(token, v.ScheduleSet(tick, one.clock()))
        await one.done(acme, v.ScheduleFire("tick", one.clock(), one.clock() + 1_000))  # it may not
        one.context.authenticator.quotas._usages.clear()  # no request has brought them here yet
        for _ in range(4):
            await one.context.long_poll.maintenance.step()
            one.clock.advance(ms=1_000)
        for token, sent, refused in ((acme, 2, 2), (bob, 4, 0)):
            (entry,) = await one.done(token, v.ScheduleList())
            assert (entry.sent, entry.refused) == (sent, refused)
            (jobs, _) = await one.done(token, v.Stats())
            assert jobs.sent == sent
            assert entry.next_at == one.clock()


# --- what else is kept ---------------------------------------------------------------------------


async def test_queues_schedules_policies_and_history_are_bounded(url):
    async with ticking(url) as one:
        quotas = {"max_queues": 4, "max_schedules": 1, "max_policies": 2, "max_history_bytes": 100}
        token, other = await one.token("acme", **quotas), await one.token("bob")
        kept = QueueSettings(history_payload=True)
        for shown in (other, token):
            await one.done(shown, v.QueueCreate("a", kept))
            await one.done(shown, send(1, queue="b"))

        def schedule(name: str, queue: str = "a") -> v.ScheduleSet:
            return v.ScheduleSet(Schedule(name, queue, Outgoing(b"x"), every_ms=1_000), None)

        async def refused(verb: Any, name: str) -> None:
            with pytest.raises(QuotaExceeded, match=rf"\({name}\)"):
                await one.done(token, verb)

        for verb in (v.QueueCreate("c", kept), send(1, queue="c"), schedule("s", "c")):
            await refused(verb, "max_queues")
        for again in range(2):
            await one.done(token, schedule("s"))
            for channel in ("x", "y"):
                await one.done(token, v.PolicySet("a", channel, {"weight": 2 + again}))
        await refused(schedule("t"), "max_schedules")
        await refused(v.PolicySet("a", "z", {"weight": 2}), "max_policies")
        one.seconds.now += QUIET_LOOKS * MEASURE_SHARE
        await refused(schedule("t"), "max_schedules")
        await refused(v.PolicySet("a", "z", {"weight": 2}), "max_policies")
        await refused(v.QueueCreate("c", kept), "max_queues")

        await one.done(token, send(1, 90, queue="a"))
        (delivery,) = (await one.done(token, v.Receive("a", 1))).deliveries
        await one.done(token, v.Ack("a", (delivery.receipt,), (Result(b"r" * 50, "text/plain"),)))
        one.seconds.now += QUIET_LOOKS * MEASURE_SHARE
        await refused(send(1, 1, queue="a"), "max_history_bytes")
        await one.done(token, v.Clear("a", "all"))
        await one.done(token, v.QueueDelete("b"))
        await one.done(token, v.ScheduleDelete("s"))
        one.seconds.now += QUIET_LOOKS * MEASURE_SHARE
        await one.done(token, send(1, 1, queue="a"))
        await one.done(token, schedule("t"))


async def test_a_transaction_is_charged_by_verb(url):
    async with ticking(url) as one:
        token = await one.token("acme", requests_per_second=10)
        body = json.dumps({"verbs": [{"verb": "queue_list"}] * 40}).encode()
        shown = ("Authorization", f"Bearer {token}")
        assert (await one.ask("POST", "/v1/transaction", body, shown)).status == 200
        one.seconds.now += 3
        answer = await one.run(token, v.QueueList())
        assert answer.status == 429
        one.seconds.now += float(json.loads(answer.body)["error"]["retry_after_seconds"])
        assert (await one.run(token, v.QueueList())).status == 200

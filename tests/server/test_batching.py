"""Concurrent verbs go to the store as one, and each client gets its own outcome."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.server.batching_support import Watched, message, settle, watched
from tests.support.each import each
from tests.support.loops import inside
from turnabout.server.batching.batching_store import BatchingStore
from turnabout.server.batching.merging import BYTES_MAX, MESSAGES_MAX, Mergeable, kind_of
from turnabout.words import outcomes as o
from turnabout.words import verbs as v
from turnabout.words.entities import FIRST_TURN, Deferral, Failure, Receipt, Turn
from turnabout.words.errors import Disconnected, QueueNotFound, Uncertain, UsageError
from turnabout.words.policy import QueueSettings
from turnabout.words.records import Result
from turnabout.words.turns import in_turn
from turnabout.words.value import replace


@asynccontextmanager
async def merging() -> AsyncIterator[tuple[Watched, BatchingStore]]:
    async with watched() as store:
        yield store, BatchingStore(store)


on_a_loop = inside(merging, 2)


async def crowd(store: Watched, merged: BatchingStore, verbs: list[Any]) -> list[Any]:
    """The outcomes of verbs that come while one of their kind, the first, is under way."""
    store.hold()
    first = asyncio.ensure_future(merged.run(verbs[0]))
    await store.came.wait()
    others = [asyncio.ensure_future(merged.run(verb)) for verb in verbs[1:]]
    await settle()
    store.open.set()
    return await asyncio.gather(first, *others, return_exceptions=True)


def send(*payloads: str, channel: str = "", queue: str = "q") -> v.Send:
    return v.Send(queue, tuple(message(payload, channel) for payload in payloads))


async def lease(store: Watched, count: int) -> list[Receipt]:
    await store.run(send(*map(str, range(count))))
    received = await store.run(v.Receive("q", count, 60_000))
    store.asked.clear()
    return sorted(delivery.receipt for delivery in received.deliveries)


@on_a_loop
async def test_a_lone_verb_goes_at_once_and_as_it_is(store, merged):
    verb = send("a")
    assert await merged.run(verb) == o.Sent((1,))
    assert store.asked == [verb]


@on_a_loop
async def test_sends_that_come_meanwhile_go_together_in_the_order_of_asking(store, merged):
    sent = await crowd(store, merged, [send("a"), send("b", "c"), send("d"), send("e", "f")])
    assert sent == [o.Sent((1,)), o.Sent((2, 3)), o.Sent((4,)), o.Sent((5, 6))]
    assert [len(verb.messages) for verb in store.asked] == [1, 5]
    peeked = await store.run(v.Peek("q"))
    assert b"".join(one.payload for one in peeked) == b"abcdef"


@on_a_loop
async def test_queues_go_side_by_side(store, merged):
    store.hold()
    tasks = [asyncio.ensure_future(merged.run(send("x", queue=name))) for name in ("a", "b", "c")]
    await settle()
    assert {verb.queue for verb in store.asked} == {"a", "b", "c"}
    store.open.set()
    await asyncio.gather(*tasks)


@on_a_loop
async def test_a_send_with_a_key_goes_by_itself(store, merged):
    keyed = v.Send("q", (message("k", dedup_key="one"),))
    sent = await crowd(store, merged, [keyed, keyed, send("a"), send("b")])
    assert [outcome.ids for outcome in sent[:2]] == [(1,), (1,)]
    assert sent[1].duplicates == (0,)
    assert store.asked.count(keyed) == 2


@on_a_loop
async def test_a_batch_is_bounded_in_messages_and_bytes(store, merged):
    many = [send(*["x"] * (MESSAGES_MAX // 2)) for _ in range(4)]
    await crowd(store, merged, [send("a"), *many])
    assert [len(verb.messages) for verb in store.asked] == [1, MESSAGES_MAX, MESSAGES_MAX]
    store.asked.clear()
    large = [send("x" * (BYTES_MAX // 2)) for _ in range(3)]
    await crowd(store, merged, [send("a"), *large])
    assert [len(verb.messages) for verb in store.asked] == [1, 2, 1]
    store.asked.clear()
    over = [send(*["x"] * (MESSAGES_MAX + 1)), send("b")]
    await crowd(store, merged, [send("a"), *over])
    assert [len(verb.messages) for verb in store.asked] == [1, MESSAGES_MAX + 1, 1]


@on_a_loop
async def test_a_full_channel_refuses_its_own_senders_only(store, merged):
    await store.run(v.QueueCreate("q", QueueSettings()))
    await store.run(v.PolicySet("q", "small", {"max_size": 2}))
    store.asked.clear()
    sent = await crowd(
        store,
        merged,
        [
            send("0"),
            send("a", channel="small"),
            send("b", channel="other"),
            send("c", "d", channel="small"),
            send("e", channel="small"),
            send("f"),
        ],
    )
    # Who asked first has the room; a send of two is refused whole; the others are in nobody's way.
    kinds = [type(outcome) for outcome in sent]
    assert kinds == [o.Sent, o.Sent, o.Sent, o.ChannelFull, o.Sent, o.Sent]
    assert sent[3] == o.ChannelFull("small", 2, 1)
    merged_again = [verb for verb in store.asked if len(verb.messages) == 2]
    assert {m.channel for m in merged_again[0].messages} == {"other", ""}


@on_a_loop
async def test_receives_get_their_share_in_the_order_of_asking(store, merged):
    await store.run(send(*"abcdefg"))
    await store.run(v.Send("q", (message("later", delay_ms=9_000),)))
    store.asked.clear()
    asked = [v.Receive("q", most, 60_000, None, Turn("", most)) for most in (1, 2, 3, 4, 5)]
    received = await crowd(store, merged, [*asked, v.Receive("q", 1, 5_000)])
    payloads = [b"".join(d.payload for d in one.deliveries) for one in received]
    # The last one has another lease, and so a batcher of its own.
    assert payloads == [b"a", b"cd", b"efg", b"", b"", b"b"]
    assert received[3].retry_after_ms in range(4_000, 5_001)  # when that lease ends
    assert [verb.max_messages for verb in store.asked] == [1, 1, 14, 9]
    assert store.asked[-1].turn == Turn("", 4)  # the hungry are in the same order as before


@on_a_loop
async def test_after_a_crowd_its_next_one_is_waited_for(store, merged):
    async def client(number: int) -> None:
        for i in range(5):
            await merged.run(send(f"{number}.{i}"))

    store.hold()
    clients = [asyncio.ensure_future(client(number)) for number in range(20)]
    await settle()
    store.open.set()
    await asyncio.gather(*clients)
    assert [len(verb.messages) for verb in store.asked] == [20] * 5


@on_a_loop
async def test_results_stay_with_their_receipts(store, merged):
    receipts = await lease(store, 4)
    result = Result(b"r", "text/plain")
    results: list[tuple[Result, ...]] = [(), (), (result,), ()]
    pairs = zip(receipts, results, strict=True)
    await crowd(store, merged, [v.Ack("q", (one,), given) for one, given in pairs])
    endings = await store.run(v.Endings("q", tuple(one.id for one in receipts)))
    assert [ending.result for ending in endings] == [None, None, result, None]


@on_a_loop
async def test_receipts_have_their_own_outcomes(store, merged):
    first, second, third, fourth = await lease(store, 4)
    stale = Receipt(second.id, 7)
    acks = [
        v.Ack("q", (first,)),
        v.Ack("q", (second, stale)),
        v.Ack("q", (third,), (Result(b"r", "text/plain"),)),
        v.Ack("q", (third,)),
        v.Ack("q", (fourth,)),
    ]
    outcomes = await crowd(store, merged, acks)
    lost = o.LeaseLost("gone")
    assert outcomes[0] == (o.Acked(),)
    assert outcomes[1][0] == o.Acked()
    assert isinstance(outcomes[1][1], o.LeaseLost)
    assert outcomes[2:] == [(o.Acked(),), (lost,), (o.Acked(),)]
    # A verb that names a message twice, or one that another names, has a batch of its own.
    named = [[receipt.id for receipt in verb.receipts] for verb in store.asked]
    assert all(len(set(ids)) == len(ids) for ids in named if len(ids) > 2)
    assert [third.id] in named
    (ending,) = await store.run(v.Endings("q", (third.id,)))
    assert ending.result is not None


@pytest.mark.parametrize("kind", ["extend", "release", "defer", "fail"])
@on_a_loop
async def test_every_verb_of_a_lease_is_merged(store, merged, kind):
    def make(*receipts: Receipt) -> Any:
        match kind:
            case "extend":
                return v.Extend("q", receipts, 120_000)
            case "release":
                return v.Release("q", receipts)
            case "defer":
                return v.Defer("q", tuple(Deferral(one, 1_000, b"s") for one in receipts))
            case _:
                return v.Fail("q", tuple(Failure(one, "why") for one in receipts))

    good = {"extend": o.Extended, "release": o.Released, "defer": o.Deferred, "fail": o.Retrying}
    receipts = await lease(store, 5)
    verbs = [make(receipts[0]), make(*receipts[1:3]), make(Receipt(99, 1)), make(*receipts[3:])]
    outcomes = await crowd(store, merged, verbs)
    assert [len(one) for one in outcomes] == [1, 2, 1, 2]
    assert outcomes[2] == (o.LeaseLost("gone"),)
    assert {type(one) for part in (0, 1, 3) for one in outcomes[part]} == {good[kind]}
    assert len(store.asked) == 2


@on_a_loop
async def test_leases_of_different_length_are_not_mixed(store, merged):
    one, two, three = await lease(store, 3)
    extends = [v.Extend("q", (one,), 70_000), v.Extend("q", (two,), 80_000)]
    extends.append(v.Extend("q", (three,), 90_000))
    outcomes = await crowd(store, merged, extends)
    ends = [outcome[0].lease_until for outcome in outcomes]
    assert ends[2] - ends[1] > 5_000 < ends[1] - ends[0]


# --- what goes wrong ------------------------------------------------------------------------------


@on_a_loop
async def test_a_missing_queue_is_told_to_each(store, merged):
    outcomes = await crowd(store, merged, [v.Ack("no", (Receipt(i, 1),)) for i in (1, 2, 3)])
    assert [type(one) for one in outcomes] == [QueueNotFound] * 3


@on_a_loop
async def test_one_s_mistake_is_not_the_others(store, merged):
    def refuse(verb: Any) -> None:
        if any(m.payload == b"bad" for m in verb.messages):
            raise UsageError("that is no payload")

    store.before = refuse
    outcomes = await crowd(store, merged, [send("a"), send("b"), send("bad"), send("c")])
    kinds = [type(one) for one in outcomes]
    assert kinds == [o.Sent, o.Sent, UsageError, o.Sent]
    assert len(await store.store.run(v.Peek("q"))) == 3


@each("error", [Uncertain("lost"), Disconnected("away"), ValueError("a bug")])
@on_a_loop
async def test_what_may_have_happened_to_all_is_told_to_all_and_not_repeated(store, merged, error):
    def fail(verb: Any) -> None:
        if len(verb.messages) > 1:
            raise error

    store.after = fail
    outcomes = await crowd(store, merged, [send("a"), send("b"), send("c")])
    assert isinstance(outcomes[0], o.Sent)
    assert outcomes[1:] == [error, error]
    assert len(store.asked) == 2
    assert isinstance(await merged.run(send("d")), o.Sent)  # the batcher goes on


# --- who goes away --------------------------------------------------------------------------------


async def cancelled(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@on_a_loop
async def test_a_cancelled_waiter_takes_nobody_along(store, merged):
    store.hold()
    tasks = [asyncio.ensure_future(merged.run(send(one))) for one in "a"]
    await store.came.wait()
    tasks += [asyncio.ensure_future(merged.run(send(one))) for one in "bcd"]
    await settle()
    await cancelled(tasks[0])  # under way: it may happen
    await cancelled(tasks[2])  # not yet: it does not
    store.open.set()
    assert await tasks[1] == o.Sent((2,))
    assert await tasks[3] == o.Sent((3,))
    assert [one.payload for one in await store.run(v.Peek("q"))] == [b"a", b"b", b"d"]


@on_a_loop
async def test_what_a_cancelled_receive_got_is_given_back(store, merged):
    await store.run(send(*"abcd"))
    store.hold()
    verb = v.Receive("q", 1, 60_000)
    tasks = [asyncio.ensure_future(merged.run(verb)) for _ in range(4)]
    await store.came.wait()  # the batch of four is under way
    await cancelled(tasks[2])
    store.open.set()
    kept = [await tasks[i] for i in (0, 1, 3)]
    assert [len(one.deliveries) for one in kept] == [1, 1, 1]
    while merged._tasks:
        await asyncio.wait(merged._tasks)
    (stats,) = await store.run(v.Stats("q"))
    assert (stats.leased, stats.ready) == (3, 1)


# --- any crowd --------------------------------------------------------------------------------

CHANNELS = ("", "small", "b")
START = 1_800_000_000_000


def _verbs(receipts: list[Receipt]) -> st.SearchStrategy[Any]:
    receipt = st.sampled_from([*receipts, Receipt(99, 1), Receipt(1, 9)])
    some = st.lists(receipt, min_size=1, max_size=3).map(tuple)
    key = st.none() | st.sampled_from(["k1", "k2"])
    outgoing = st.builds(
        lambda channel, key: message("x", channel, dedup_key=key), st.sampled_from(CHANNELS), key
    )
    return st.one_of(
        st.lists(outgoing, min_size=1, max_size=3).map(lambda m: v.Send("q", tuple(m))),
        some.map(lambda r: v.Ack("q", r)),
        some.map(lambda r: v.Release("q", r)),
        some.map(lambda r: v.Extend("q", r, 90_000)),
        some.map(lambda r: v.Fail("q", tuple(Failure(one, "e", delay_ms=9) for one in r))),
        some.map(lambda r: v.Defer("q", tuple(Deferral(one, 5) for one in r))),
        # One each: of more than one nobody but the store knows where the round stands then.
        st.just(1).map(lambda most: v.Receive("q", most, 60_000)),
    )


class Prepared:
    """A queue with six leased messages, a small channel, and a few that are ready."""

    receipts = tuple(Receipt(i, 1) for i in range(1, 7))

    @staticmethod
    async def fill(run: Callable[[Any], Coroutine[Any, Any, Any]]) -> None:
        await run(v.QueueCreate("q", QueueSettings(max_messages=16, backoff_jitter=0.0)))
        await run(v.PolicySet("q", "small", {"max_size": 3}))
        await run(send(*"abcdef"))
        await run(v.Receive("q", 6, 60_000))
        await run(send("g", "h", channel="b"))


class Order:
    """The batches in which verbs were carried out, in their order."""

    def __init__(self, store: Watched) -> None:
        self.batches: list[list[Any]] = []
        self._inside: dict[int, list[Any]] = {}
        self._keep: list[Any] = []
        store.done = self._note

    def kind_of(self, verb: Any) -> Mergeable | None:
        kind = kind_of(verb)
        if kind is None:
            return None

        def merge(verbs: Any) -> Any:
            merged = kind.merge(verbs)
            self._keep.append(merged)
            self._inside[id(merged)] = list(verbs)
            return merged

        return dataclasses.replace(kind, merge=merge)

    def _note(self, verb: Any, answer: Any) -> None:
        inside = self._inside.get(id(verb), [verb])
        if len(inside) > 1 and isinstance(answer, (o.ChannelFull, o.QueueFull)):
            return  # each comes again, alone
        if isinstance(answer, o.Received) and answer.deliveries:
            ends = accumulate((one.max_messages for one in inside), initial=0)
            there = len(answer.deliveries)
            inside = [one for one, end in zip(inside, ends, strict=False) if end < there]
        self.batches.append(inside)


async def one_by_one(store: Watched, batches: list[list[Any]]) -> dict[int, Any]:
    """The outcomes of all verbs, each alone; receives of a batch go on from one another."""
    outcomes: dict[int, Any] = {}
    for batch in batches:
        turn = FIRST_TURN
        for verb in batch:
            told = replace(verb, turn=turn) if isinstance(verb, v.Receive) else verb
            answer = outcomes[id(verb)] = await store.run(told)
            if isinstance(answer, o.Received):
                _, guess = in_turn(answer.deliveries, turn)
                turn = answer.turn or guess
    return outcomes


def in_order(outcome: Any) -> Any:
    """Deliveries have no promised order inside an answer, and a turn is a hint."""
    if isinstance(outcome, o.Received):
        return o.Received(tuple(sorted(outcome.deliveries)), outcome.retry_after_ms)
    return outcome


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.lists(_verbs(list(Prepared.receipts)), min_size=2, max_size=12))
def test_any_crowd_comes_to_what_it_would_one_by_one(drawn):
    """Lived twice: as a crowd, and by single verbs in the order in which the crowd's turn came."""
    verbs = [replace(verb) for verb in drawn]  # each an object of its own

    async def live() -> None:
        async with watched(lambda: START) as store, watched(lambda: START) as single:
            await Prepared.fill(store.run)
            await Prepared.fill(single.run)
            order = Order(store)
            outcomes = await crowd(store, BatchingStore(store, order.kind_of), verbs)
            assert sum(map(len, order.batches)) == len(verbs)
            again = await one_by_one(single, order.batches)
            expected = [in_order(again[id(verb)]) for verb in verbs]
            assert list(map(in_order, outcomes)) == expected
            assert await store.run(v.Peek("q", 100)) == await single.run(v.Peek("q", 100))

    asyncio.run(live())

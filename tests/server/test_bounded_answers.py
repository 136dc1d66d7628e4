"""Large receives in portions: as many as were asked for, as long as there is room for them."""

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.server.batching_support import Watched, watched
from tests.server.yard import Yard, there
from tests.support.doors import Clock
from tests.support.each import each
from tests.support.loops import inside
from turnabout.server.app import create_app
from turnabout.server.batching.bounded_answers import BoundedAnswers
from turnabout.server.options import ServerOptions
from turnabout.server.tenants.answer_room import AnswerRoom
from turnabout.words import verbs as v
from turnabout.words.entities import Deferral, Outgoing, Turn
from turnabout.words.errors import Busy
from turnabout.words.outcomes import Received
from turnabout.words.turns import in_turn

ROOM, LARGEST = 10_000, 1_000  # ten messages of the largest kind


@asynccontextmanager
async def in_portions() -> AsyncIterator[tuple[Watched, BoundedAnswers]]:
    """A store behind portions of ten."""
    async with watched() as store:
        yield store, BoundedAnswers(store, AnswerRoom(10 * ROOM, 30.0), LARGEST, ROOM)


behind = inside(in_portions, 2)


async def filled(store: Watched, count: int, size: int = 10, channels: str = "abc") -> None:
    messages = [Outgoing(b"x" * size, channel=channels[n % len(channels)]) for n in range(count)]
    await store.run(v.Send("q", tuple(messages)))


def asked(store: Watched) -> list[int]:
    return [verb.max_messages for verb in store.of(v.Receive)]


def ids(received: Received) -> list[int]:
    return [delivery.id for delivery in received.deliveries]


@behind
async def test_small_messages_come_as_many_as_were_asked_for(store, bounded):
    await filled(store, 40)
    received = await bounded.run(v.Receive("q", 35))
    assert asked(store) == [10, 9, 9, 7], "a bit of the room is taken"
    assert len(set(ids(received))) == 35
    rest = await bounded.run(v.Receive("q", 35, turn=received.turn or Turn()))
    assert len(ids(rest)) == 5
    empty = await bounded.run(v.Receive("q", 35))
    assert empty == Received((), empty.retry_after_ms)
    assert empty.retry_after_ms is not None, "leases end some time"


@behind
async def test_what_may_be_in_one_portion_is_asked_for_as_it_was(store, bounded):
    await filled(store, 10)
    verb = v.Receive("q", 10, turn=Turn("b", 1))
    assert len(ids(await bounded.run(verb))) == 10
    assert store.of(v.Receive) == [verb]


@each("size", [300, 999, 1_000])
@behind
async def test_large_messages_are_fewer_than_were_asked_for(store, bounded, size):
    await filled(store, 60, size)
    left = 60
    while left:
        received = await bounded.run(v.Receive("q", 60))
        there = sum(len(delivery.payload) for delivery in received.deliveries)
        assert 0 < there <= ROOM
        assert there + size + LARGEST > ROOM or len(ids(received)) == left
        left -= len(ids(received))


@behind
async def test_a_message_that_somebody_else_let_in_is_handed_out_all_the_same(store, bounded):
    await filled(store, 12, 5 * ROOM)
    assert len(ids(await bounded.run(v.Receive("q", 12)))) == 10
    assert len(ids(await bounded.run(v.Receive("q", 12)))) == 2


@behind
async def test_saved_states_count(store, bounded):
    await filled(store, 20, 0)
    taken = (await store.run(v.Receive("q", 20))).deliveries
    states = tuple(Deferral(one.receipt, state=b"s" * LARGEST) for one in taken)
    await store.run(v.Defer("q", states))
    assert len(ids(await bounded.run(v.Receive("q", 20)))) == 10


@behind
async def test_the_round_goes_on_where_the_last_portion_ended(store, bounded):
    """So the channels have their shares, by weight."""
    await filled(store, 300)
    await store.run(v.PolicySet("q", "b", {"weight": 3}))
    turn, shares = Turn(), Counter[str]()
    for _ in range(5):
        received = await bounded.run(v.Receive("q", 30, turn=turn))
        shares.update(delivery.channel for delivery in received.deliveries)
        _, guess = in_turn(received.deliveries, turn)
        turn = received.turn or guess
    assert shares["a"] + shares["c"] == pytest.approx(60, abs=6)
    assert shares["b"] == pytest.approx(90, abs=6)


@behind
async def test_what_there_is_is_handed_out_when_a_later_portion_fails(store, bounded):
    await filled(store, 40)

    def fail(verb: Any) -> None:
        if len(store.of(v.Receive)) == 2:
            raise Busy("not now")

    store.before = fail
    received = await bounded.run(v.Receive("q", 35))
    assert len(ids(received)) == 10
    assert received.turn is not None

    def fail_at_once(verb: Any) -> None:
        raise Busy("not now")

    store.before = fail_at_once
    with pytest.raises(Busy):
        await bounded.run(v.Receive("q", 35))


@behind
async def test_receives_of_one_transaction_share_a_portion(store, bounded):
    await filled(store, 60)
    verbs = [v.Receive("q", 6), v.Stats("q"), v.Receive("q", 30), v.Receive("q", 5)]
    first, _, second, third = await bounded.run_transaction(verbs)
    assert [len(ids(one)) for one in (first, second, third)] == [6, 4, 1]


@behind
async def test_ten_of_the_largest_have_room_whatever_they_are(store, bounded):
    await filled(store, 30)
    bounded = BoundedAnswers(store, AnswerRoom(100 * ROOM, 30.0), 10 * ROOM, ROOM)
    assert len(ids(await bounded.run(v.Receive("q", 20)))) == 20
    assert asked(store) == [10, 9, 1]


@each("said", ["", ', "turn": {"channel": "a"}'])
async def test_a_server_asks_its_store_for_portions(said):
    """Whoever leaves the turn to it, and whoever names one."""
    async with watched() as store:
        app = create_app(store, ServerOptions(auth="none", max_payload_bytes=64 * 1024 * 1024))
        one = Yard(store.store, app.state.context, app, Clock())
        await filled(store, 40)
        body = f'{{"max_messages": 25{said}}}'.encode()
        answer = await one.ask("POST", "/v1/queues/q/receive", body)
        assert len(json.loads(answer.body)["deliveries"]) == 25
        assert max(asked(store)) == 10


@there(auth="none", max_body_bytes=1_000, max_payload_bytes=500)
async def test_a_small_server_gives_its_lists(one: Yard) -> None:
    """Its room for answers is less than a part of a list may take elsewhere."""
    await one.store.run(v.Send("q", (Outgoing(b"x"),)))
    answer = await one.ask("GET", "/v1/queues/q/messages")
    assert (answer.status, len(json.loads(answer.body)["items"])) == (200, 1)

"""Large receives in portions, so that no answer is larger than the server has room for.

How large messages are is known when they are here, and then they are leased. So the store is asked
for no more than would fit if all were as large as they may be; while those that came are small, it
is asked again. A client that wants many large messages gets fewer of them at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from turnabout.store import AsyncForwardingStore, AsyncStore
from turnabout.words.errors import TurnaboutError
from turnabout.words.outcomes import Received
from turnabout.words.turns import in_turn
from turnabout.words.verbs import Receive, Verb

A = TypeVar("A")

ANSWER_BYTES = 100 * 1024 * 1024
"""Of payloads and states in one answer: a hundred messages of the usual limit."""
MESSAGES_MIN = 10
"""There is always room for this many, however large they are."""


class BoundedReceive(AsyncForwardingStore):
    """A store in front of a store. `message_bytes`: how large a payload may be."""

    def __init__(
        self, store: AsyncStore, message_bytes: int, answer_bytes: int = ANSWER_BYTES
    ) -> None:
        super().__init__(store)
        self._message_bytes = message_bytes
        self._room = max(answer_bytes, MESSAGES_MIN * message_bytes)
        self._portion = self._room // message_bytes

    async def run(self, verb: Verb[A]) -> A:
        """As the store's."""
        told: Verb[Any] = verb
        if isinstance(told, Receive) and told.max_messages > self._portion:
            return cast("A", await self._receive(told))
        return await self._store.run(verb)

    async def _receive(self, verb: Receive) -> Received:
        """Portion after portion, as long as there is room for another one of the largest kind."""
        part = await self._store.run(replace(verb, max_messages=self._portion))
        if len(part.deliveries) < self._portion:
            return part
        taken, most, room, turn = (), self._portion, self._room, verb.turn
        while True:
            taken += part.deliveries
            _, guess = in_turn(part.deliveries, turn)
            turn = part.turn or guess
            room -= sum(len(one.payload) + len(one.state or b"") for one in part.deliveries)
            is_dry = len(part.deliveries) < most
            most = min(verb.max_messages - len(taken), room // self._message_bytes)
            if is_dry or most < 1:
                break
            try:
                part = await self._store.run(replace(verb, max_messages=most, turn=turn))
            except TurnaboutError:
                break  # what there is must not wait for its lease to run out
        return Received(taken, turn=turn)

    async def run_transaction(self, verbs: Sequence[Verb[Any]]) -> list[Any]:
        """As the store's; receives share one portion, as their transaction cannot go on later."""
        left = self._portion
        told: list[Verb[Any]] = []
        for verb in verbs:
            one = verb
            if isinstance(verb, Receive):
                one = replace(verb, max_messages=min(verb.max_messages, max(1, left)))
                left -= one.max_messages
            told.append(one)
        return await self._store.run_transaction(told)

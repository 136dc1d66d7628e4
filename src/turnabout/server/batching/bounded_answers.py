"""Large answers in portions, so that none is larger than the server has room for.

The size of messages is known only when they have arrived, and then they are leased. So the store is
asked for as many as there is room for at the largest size; while they turn out small, it is asked
again. A client that wants many large messages gets fewer of them at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

from turnabout.server.tenants.answer_room import MESSAGES_MIN, AnswerRoom
from turnabout.store import AsyncForwardingStore, AsyncStore
from turnabout.words.errors import TurnaboutError
from turnabout.words.namespaces import namespace_of
from turnabout.words.outcomes import Received
from turnabout.words.turns import in_turn
from turnabout.words.value import replace
from turnabout.words.verbs import Receive, Verb

A = TypeVar("A")

ANSWER_BYTES = 100 * 1024 * 1024
"""Bytes of payloads and states in one answer: a hundred messages of the usual limit."""


class BoundedAnswers(AsyncForwardingStore):
    """A store in front of a store. `message_bytes`: how large a payload may be."""

    def __init__(
        self,
        store: AsyncStore,
        room: AnswerRoom,
        message_bytes: int,
        answer_bytes: int = ANSWER_BYTES,
    ) -> None:
        super().__init__(store)
        self._answers = room
        self._message_bytes = message_bytes
        self._room = min(room.most, max(answer_bytes, MESSAGES_MIN * message_bytes))
        self._portion_max = self._room // message_bytes

    async def run(self, verb: Verb[A]) -> A:
        """Run a verb. Raises: Busy if there is no room for its answer."""
        any_verb: Verb[Any] = verb
        if isinstance(any_verb, Receive):
            return cast("A", await self._receive(any_verb))
        room = min(_room_of(any_verb), self._answers.most)
        if not room:
            return await self._store.run(verb)
        async with self._answers.asking(_namespace_of(any_verb), room, room):
            return await self._store.run(verb)

    async def _receive(self, verb: Receive) -> Received:
        """Receive portions, as long as there is room for another message of the largest size."""
        part, most = await self._portion(verb, self._portion_max)
        acked = part.acked
        if len(part.deliveries) < most or most == verb.max_messages:
            return part
        taken, room, turn = (), self._room, verb.turn
        while True:
            taken += part.deliveries
            _, guess = in_turn(part.deliveries, turn)
            turn = part.turn or guess
            room -= part.size
            left = min(verb.max_messages - len(taken), room // self._message_bytes)
            if len(part.deliveries) < most or left < 1:
                break
            try:
                rest = replace(verb.apart()[1], max_messages=left, turn=turn)
                part, most = await self._portion(rest, left)
            except TurnaboutError:
                break  # what there is must not wait for its lease to run out
        return Received(taken, turn=turn, acked=acked)

    async def _portion(self, verb: Receive, most: int) -> tuple[Received, int]:
        """Receive the messages asked for, or as many as have room; also returns that number."""
        size = self._message_bytes
        namespace = namespace_of(verb.queue)
        async with self._answers.asking(
            namespace, min(verb.max_messages, most) * size, size
        ) as share:
            most = share.size // size
            bounded = verb if most == verb.max_messages else replace(verb, max_messages=most)
            received = await self._store.run(bounded)
            share.brought(received.size)
        return received, most

    async def run_transaction(
        self, verbs: Sequence[Verb[Any]], *, all_or_none: bool = False
    ) -> list[Any]:
        """Run verbs in one transaction; receives share one portion, as it cannot go on later."""
        wanted = sum(verb.max_messages for verb in verbs if isinstance(verb, Receive))
        wanted = min(wanted, self._portion_max) * self._message_bytes
        lists = min(sum(map(_room_of, verbs)), self._answers.most)
        if not wanted + lists:
            return await self._store.run_transaction(verbs, all_or_none=all_or_none)
        least = lists + (self._message_bytes if wanted else 0)
        namespace = _namespace_of(*verbs)
        async with self._answers.asking(namespace, wanted + lists, least) as share:
            left = (share.size - lists) // self._message_bytes
            bounded: list[Verb[Any]] = []
            for verb in verbs:
                one = verb
                if isinstance(verb, Receive):
                    one = replace(verb, max_messages=min(verb.max_messages, max(1, left)))
                    left -= one.max_messages
                bounded.append(one)
            answers = await self._store.run_transaction(bounded, all_or_none=all_or_none)
            share.brought(sum(one.size for one in answers if isinstance(one, Received)))
            return answers


def _room_of(verb: Verb[Any]) -> int:
    """The bytes that a list may bring."""
    return getattr(verb, "room_bytes", None) or 0


def _namespace_of(*verbs: Verb[Any]) -> str:
    """The one namespace of these verbs."""
    for verb in verbs:
        queue: str | None = getattr(verb, "queue", None)
        if queue is not None:
            return namespace_of(queue)
    return next(filter(None, (getattr(verb, "namespace", None) for verb in verbs)), "")

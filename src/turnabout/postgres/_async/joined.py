"""Verbs on the caller's own PostgreSQL connection, in its transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

from turnabout.adapters import AsyncClient, adapted_async
from turnabout.adapters.joined import ANOTHER_STORE, check_joins
from turnabout.adapters.protocol import Rows
from turnabout.postgres.errors import NotRebuilt
from turnabout.postgres.items import without_duplicates
from turnabout.postgres.joined import Now, answer, beforehand, call, check_open, meaning
from turnabout.store import AsyncJoined
from turnabout.words.errors import Forbidden, UsageError
from turnabout.words.value import replace
from turnabout.words.verb import Change
from turnabout.words.verbs import Receive, Verb

A = TypeVar("A")


class AsyncPostgresJoined(AsyncJoined):
    """Runs verbs in the transaction of a connection that the caller has."""

    def __init__(
        self,
        connection: object,
        own: Callable[[Verb[Any]], Awaitable[Any]],
        wake: Callable[[str, Change], Awaitable[None]],
        clock: Now,
        known: set[str],
    ) -> None:
        """`own` runs a verb on a connection of the store's; `wake` notifies those who wait; `known`
        are queues that were there before.
        """
        client = adapted_async(connection)
        if not hasattr(client, "fetch"):
            raise UsageError(ANOTHER_STORE.format("SQLite", "PostgreSQL"))
        self._client = cast("AsyncClient", client)
        self._own = own
        self._wake = wake
        self._clock = clock
        self._known = known

    async def run(self, verb: Verb[A]) -> A:
        """Carry out a verb in the caller's transaction."""
        check_joins(verb)
        done = verb.nothing_to_do()
        if done is not None:
            return done
        parts = without_duplicates(verb)
        if parts is not None and isinstance(verb, Receive):
            acks, rest = verb.apart()
            acked = await self.run(acks)
            return cast("A", replace(await self.run(rest), acked=acked))
        if parts is not None:
            answers = [await self.run(one) for one in parts.verbs]
            return cast("A", parts.merge(answers))
        check_open(in_transaction=self._client.is_in_transaction())
        before = beforehand(verb, self._known)
        if before is not None:
            with suppress(Forbidden):  # a role that may not make queues, but needs none made
                await self._own(before)
            self._known.add(before.queue)
        return answer(verb, await self._call(verb))

    async def _call(self, verb: Verb[Any]) -> Rows:
        sql, parameters = call(verb, self._clock, self._client.paramstyle)
        try:
            return await self._client.fetch(sql, parameters)
        except Exception as error:
            ours = meaning(error, verb)
            if ours is None:
                raise
            if isinstance(ours, NotRebuilt):
                with suppress(Forbidden):  # for the next transaction: a look has it rebuilt
                    await self._own(Receive(getattr(verb, "queue", ""), max_messages=0))
            raise ours from error

    async def wake(self, queue: str, change: Change = Change.ANY) -> None:
        """Notify those who wait; after the caller's commit."""
        await self._wake(queue, change)

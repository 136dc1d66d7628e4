"""The store interfaces: a store, one in a caller's transaction, one in front of another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Protocol, TypeVar

from turnabout.store.connections import Connections
from turnabout.store.refusals import joined_already, no_transactions, no_waiting
from turnabout.words.outcomes import must_hold
from turnabout.words.verb import Change
from turnabout.words.verbs import Verb

A = TypeVar("A")


class AsyncStore(Protocol):
    """A store: for threads, any number; or for asyncio, on one event loop."""

    async def run(self, verb: Verb[A]) -> A:
        """Carry out a verb in one transaction and answer with its outcome.

        Raises: UsageError, Forbidden, Unavailable: nothing happened; Uncertain: it may have.
        """
        ...

    async def run_transaction(
        self, verbs: Sequence[Verb[Any]], *, all_or_none: bool = False
    ) -> list[Any]:
        """Carry out some verbs in one transaction, in this order; their outcomes, or none at all.

        An outcome that refuses (ChannelFull, LeaseLost) undoes nothing, unless it is to be
        `all_or_none`. Raises: as `run`; then also Refused.
        """
        ...

    async def signal(self, queue: str, change: Change = Change.ANY) -> int:
        """A number that changes when such a change may have come to the queue. Ask before the last
        look, so that nothing that comes in between is slept over; not before a look that is likely
        to find something, since it lets others know that somebody waits.
        """
        ...

    async def wait(
        self, queue: str, seen: int, seconds: float, change: Change = Change.ANY
    ) -> None:
        """Return when `signal(queue, change)` is no longer `seen`, or after `seconds`. May return
        early.
        """
        ...

    def within(self, connection: object) -> AsyncJoined:
        """A store that runs verbs in the transaction of that connection, and commits nothing.
        Raises: UsageError if it is not a connection of this colour to this database.
        """
        ...

    async def close(self) -> None:
        """Free connections and files. Waiting calls return; later calls raise UsageError."""
        ...

    @property
    def maintains_itself(self) -> bool:
        """Whether it maintains its queues and fires its schedules by itself, as a server does: else
        those who receive do it on their way.
        """
        return False

    # asyncio only
    def connections(self) -> Connections:
        """Connections for handlers that work in a transaction. Raises: UsageError by a server."""
        raise no_transactions()

    # asyncio only
    def measures(self) -> Mapping[str, float]:
        """Numbers that the store knows about itself anyway. Some of: calls_waiting,
        connections_open, connections_idle, connections_max, commits, verbs_committed, file_bytes,
        disk_free_bytes.
        """
        return {}

    def hand_on(self, context: Callable[[], Mapping[str, str]]) -> None:
        """Take headers to send with every request, evaluated each time (HTTP stores)."""


class AsyncJoined(AsyncStore, Protocol):
    """A store that runs verbs in the caller's transaction. It has no waiting, and nothing to close:
    the connection and its transaction are the caller's.
    """

    async def run_transaction(
        self, verbs: Sequence[Verb[Any]], *, all_or_none: bool = False
    ) -> list[Any]:
        """Run the verbs in order in the caller's transaction. After Refused, roll it back."""
        answers: list[Any] = []
        for verb in verbs:
            answers.append(await self.run(verb))
            if all_or_none:
                must_hold(answers)
        return answers

    async def wake(self, queue: str, change: Change = Change.ANY) -> None:
        """Notify those who wait at the queue for that; after the commit, since no verb did."""
        ...

    async def signal(self, queue: str, change: Change = Change.ANY) -> NoReturn:
        """Refused: nobody waits while holding a transaction."""
        raise no_waiting()

    async def wait(
        self, queue: str, seen: int, seconds: float, change: Change = Change.ANY
    ) -> NoReturn:
        """Refused, as `signal`."""
        raise no_waiting()

    def within(self, connection: object) -> NoReturn:
        """Refused: it is joined."""
        raise joined_already()

    async def close(self) -> None:
        """Nothing: the connection is the caller's."""


class AsyncForwardingStore(AsyncStore):
    """A store in front of another one: what a subclass does not say otherwise, that one does."""

    def __init__(self, store: AsyncStore) -> None:
        self._store = store

    async def run(self, verb: Verb[A]) -> A:
        """Carry out a verb."""
        return await self._store.run(verb)

    async def run_transaction(
        self, verbs: Sequence[Verb[Any]], *, all_or_none: bool = False
    ) -> list[Any]:
        """Carry out some verbs in one transaction."""
        return await self._store.run_transaction(verbs, all_or_none=all_or_none)

    async def signal(self, queue: str, change: Change = Change.ANY) -> int:
        """Forwarded."""
        return await self._store.signal(queue, change)

    async def wait(
        self, queue: str, seen: int, seconds: float, change: Change = Change.ANY
    ) -> None:
        """Forwarded."""
        await self._store.wait(queue, seen, seconds, change)

    def within(self, connection: object) -> AsyncJoined:
        """Forwarded."""
        return self._store.within(connection)

    async def close(self) -> None:
        """Forwarded."""
        await self._store.close()

    @property
    def maintains_itself(self) -> bool:
        """Forwarded."""
        return self._store.maintains_itself

    # asyncio only
    def connections(self) -> Connections:
        """Forwarded."""
        return self._store.connections()

    # asyncio only
    def measures(self) -> Mapping[str, float]:
        """Forwarded."""
        return self._store.measures()

    def hand_on(self, context: Callable[[], Mapping[str, str]]) -> None:
        """Forwarded."""
        self._store.hand_on(context)

"""The port: what every store is. One method carries out a verb; the rest is about waiting.

A store runs a verb in one transaction and answers with that verb's outcome. It holds no
transaction and no lock while anybody waits. SQLite, PostgreSQL and the HTTP client each have a
class for either colour; this file knows none of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NoReturn, Protocol, TypeVar

from turnabout.words.errors import UsageError
from turnabout.words.verb import Change
from turnabout.words.verbs import Verb

A = TypeVar("A")


class Store(Protocol):
    """A store for blocking callers. Safe to share between threads."""

    def run(self, verb: Verb[A]) -> A:
        """Carry out a verb in one transaction and answer with its outcome.

        Raises: UsageError, Forbidden, Unavailable: nothing happened; Uncertain: it may have.
        """
        ...

    def run_transaction(self, verbs: Sequence[Verb[Any]]) -> list[Any]:
        """Carry out some verbs in one transaction, in this order; their outcomes, or none at all.

        An outcome that refuses (ChannelFull, LeaseLost) undoes nothing. Raises: as `run`.
        """
        ...

    def signal(self, queue: str, change: Change = Change.ANY) -> int:
        """A number that changes when such a change may have come to the queue. Ask before the last
        look, so that nothing that comes in between is slept over; not before a look that is likely
        to find something, since it lets others know that somebody waits.
        """
        ...

    def wait(self, queue: str, seen: int, seconds: float, change: Change = Change.ANY) -> None:
        """Return when `signal(queue, change)` is no longer `seen`, or after `seconds`. May return
        early.
        """
        ...

    def within(self, connection: object) -> Joined:
        """A store that runs verbs in the transaction of that connection, and commits nothing.
        Raises: UsageError if it is not a connection of this colour to this database.
        """
        ...

    def close(self) -> None:
        """Free connections and files. Waiting calls return; later calls raise UsageError."""
        ...

    def hand_on(self, context: Callable[[], Mapping[str, str]]) -> None:
        """Of a store that makes requests: send these headers with each, as they are then."""


class AsyncStore(Protocol):
    """The same store for asyncio callers, on one event loop."""

    async def run(self, verb: Verb[A]) -> A:
        """Carry out a verb in one transaction and answer with its outcome.

        Raises: UsageError, Forbidden, Unavailable: nothing happened; Uncertain: it may have.
        """
        ...

    async def run_transaction(self, verbs: Sequence[Verb[Any]]) -> list[Any]:
        """Carry out some verbs in one transaction, in this order; their outcomes, or none at all.

        An outcome that refuses (ChannelFull, LeaseLost) undoes nothing. Raises: as `run`.
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
        """As `Store.within`, for an asyncio connection."""
        ...

    async def close(self) -> None:
        """Free connections and files. Waiting calls return; later calls raise UsageError."""
        ...

    def connections(self) -> Connections:
        """Connections for handlers that work in a transaction. Raises: UsageError by a server."""
        raise UsageError(
            "this store has no transactions of yours: `transaction=True` needs the database "
            "itself, not a server before it"
        )

    def measures(self) -> Mapping[str, float]:
        """Numbers that the store knows about itself anyway. Some of: calls_waiting,
        connections_open, connections_idle, connections_max, commits, verbs_committed, file_bytes,
        disk_free_bytes.
        """
        return {}

    def hand_on(self, context: Callable[[], Mapping[str, str]]) -> None:
        """Of a store that makes requests: send these headers with each, as they are then."""


class Connections(Protocol):
    """Connections to a store's database for handlers that work in a transaction."""

    receives: bool
    """Whether the message is received in the transaction, too; if not, it is leased beforehand."""

    def open(self) -> Any:
        """A blocking connection, which begins a transaction by itself. Raises: UsageError,
        Forbidden, Unavailable.
        """
        ...

    async def open_async(self) -> Any:
        """The same for asyncio; UsageError where the database has none."""
        ...

    def joined(self, connection: object, run: Callable[[Verb[Any]], Any]) -> Joined:
        """As `Store.within`, for a thread: `run` carries out a verb on the store itself."""
        ...

    def wake(self, queue: str, change: Change = Change.ANY, /) -> Awaitable[None]:
        """As `Joined.wake`; only those who wait for such a change."""
        ...


class Joined(Store, Protocol):
    """A store that runs verbs in the caller's transaction. It has no waiting, and nothing to close:
    the connection and its transaction are the caller's.
    """

    def run_transaction(self, verbs: Sequence[Verb[Any]]) -> list[Any]:
        """All in the caller's transaction, in this order."""
        return [self.run(verb) for verb in verbs]

    def wake(self, queue: str) -> None:
        """Notify the queue's waiters; after the commit, since no verb did."""
        ...

    def signal(self, queue: str, change: Change = Change.ANY) -> NoReturn:
        """Refused: nobody waits while holding a transaction."""
        raise _no_waiting()

    def wait(self, queue: str, seen: int, seconds: float, change: Change = Change.ANY) -> NoReturn:
        """Refused, as `signal`."""
        raise _no_waiting()

    def within(self, connection: object) -> NoReturn:
        """Refused: it is joined."""
        raise _joined_already()

    def close(self) -> None:
        """Nothing: the connection is the caller's."""


class AsyncJoined(AsyncStore, Protocol):
    """The same for asyncio callers."""

    async def run_transaction(self, verbs: Sequence[Verb[Any]]) -> list[Any]:
        """All in the caller's transaction, in this order."""
        return [await self.run(verb) for verb in verbs]

    async def wake(self, queue: str) -> None:
        """Notify the queue's waiters; after the commit, since no verb did."""
        ...

    async def signal(self, queue: str, change: Change = Change.ANY) -> NoReturn:
        """Refused: nobody waits while holding a transaction."""
        raise _no_waiting()

    async def wait(
        self, queue: str, seen: int, seconds: float, change: Change = Change.ANY
    ) -> NoReturn:
        """Refused, as `signal`."""
        raise _no_waiting()

    def within(self, connection: object) -> NoReturn:
        """Refused: it is joined."""
        raise _joined_already()

    async def close(self) -> None:
        """Nothing: the connection is the caller's."""


def _no_waiting() -> UsageError:
    return UsageError("a receive inside a transaction cannot wait: leave wait_seconds out")


def _joined_already() -> UsageError:
    return UsageError("this handle is already in a transaction: use `within` of the queue itself")


class ForwardingStore(Store):
    """A store in front of another one: what a subclass does not say otherwise, that one does."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def run(self, verb: Verb[A]) -> A:
        """Carry out a verb."""
        return self._store.run(verb)

    def run_transaction(self, verbs: Sequence[Verb[Any]]) -> list[Any]:
        """Carry out some verbs in one transaction."""
        return self._store.run_transaction(verbs)

    def signal(self, queue: str, change: Change = Change.ANY) -> int:
        """As the store's."""
        return self._store.signal(queue, change)

    def wait(self, queue: str, seen: int, seconds: float, change: Change = Change.ANY) -> None:
        """As the store's."""
        self._store.wait(queue, seen, seconds, change)

    def within(self, connection: object) -> Joined:
        """As the store's."""
        return self._store.within(connection)

    def close(self) -> None:
        """As the store's."""
        self._store.close()

    def hand_on(self, context: Callable[[], Mapping[str, str]]) -> None:
        """As the store's."""
        self._store.hand_on(context)


class AsyncForwardingStore(AsyncStore):
    """The same for asyncio callers."""

    def __init__(self, store: AsyncStore) -> None:
        self._store = store

    async def run(self, verb: Verb[A]) -> A:
        """Carry out a verb."""
        return await self._store.run(verb)

    async def run_transaction(self, verbs: Sequence[Verb[Any]]) -> list[Any]:
        """Carry out some verbs in one transaction."""
        return await self._store.run_transaction(verbs)

    async def signal(self, queue: str, change: Change = Change.ANY) -> int:
        """As the store's."""
        return await self._store.signal(queue, change)

    async def wait(
        self, queue: str, seen: int, seconds: float, change: Change = Change.ANY
    ) -> None:
        """As the store's."""
        await self._store.wait(queue, seen, seconds, change)

    def within(self, connection: object) -> AsyncJoined:
        """As the store's."""
        return self._store.within(connection)

    async def close(self) -> None:
        """As the store's."""
        await self._store.close()

    def connections(self) -> Connections:
        """As the store's."""
        return self._store.connections()

    def measures(self) -> Mapping[str, float]:
        """As the store's."""
        return self._store.measures()

    def hand_on(self, context: Callable[[], Mapping[str, str]]) -> None:
        """As the store's."""
        self._store.hand_on(context)

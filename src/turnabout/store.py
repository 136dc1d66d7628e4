"""The port: what every store is. One method carries out a verb; the rest is about waiting.

A store runs a verb in one transaction and answers with that verb's outcome. It holds no
transaction and no lock while anybody waits. SQLite, PostgreSQL and the HTTP client each have a
class for either colour; this file knows none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from turnabout.words.verbs import Verb

A = TypeVar("A")


class Store(Protocol):
    """A store for blocking callers. Safe to share between threads."""

    def run(self, verb: Verb[A]) -> A:
        """Carry out a verb in one transaction and answer with its outcome.

        Raises: UsageError, Forbidden, Unavailable: nothing happened; Uncertain: it may have.
        """
        ...

    def run_together(self, verbs: Sequence[Verb[Any]]) -> list[Any]:
        """Carry out some verbs in one transaction, in this order; their outcomes, or none at all.

        An outcome that refuses (ChannelFull, LeaseLost) undoes nothing. Raises: as `run`.
        """
        ...

    def signal(self, queue: str) -> int:
        """A number that changes when something may have been sent to the queue, or ended in it.
        Ask before the look, so that nothing that comes in between is slept over.
        """
        ...

    def wait(self, queue: str, seen: int, seconds: float) -> None:
        """Return when `signal(queue)` is no longer `seen`, or after `seconds`. May return early."""
        ...

    def within(self, connection: object) -> Joined:
        """A store for the verbs that join a transaction, on that connection of the caller's. It
        commits nothing. Raises: UsageError for what is no connection of this colour and database.
        """
        ...

    def close(self) -> None:
        """Free connections and files. Waiting calls return; later calls raise UsageError."""
        ...


class AsyncStore(Protocol):
    """The same store for asyncio callers, on one event loop."""

    async def run(self, verb: Verb[A]) -> A:
        """Carry out a verb in one transaction and answer with its outcome.

        Raises: UsageError, Forbidden, Unavailable: nothing happened; Uncertain: it may have.
        """
        ...

    async def run_together(self, verbs: Sequence[Verb[Any]]) -> list[Any]:
        """Carry out some verbs in one transaction, in this order; their outcomes, or none at all.

        An outcome that refuses (ChannelFull, LeaseLost) undoes nothing. Raises: as `run`.
        """
        ...

    async def signal(self, queue: str) -> int:
        """A number that changes when something may have been sent to the queue, or ended in it.
        Ask before the look, so that nothing that comes in between is slept over.
        """
        ...

    async def wait(self, queue: str, seen: int, seconds: float) -> None:
        """Return when `signal(queue)` is no longer `seen`, or after `seconds`. May return early."""
        ...

    def within(self, connection: object) -> AsyncJoined:
        """As `Store.within`, for a connection of asyncio's."""
        ...

    async def close(self) -> None:
        """Free connections and files. Waiting calls return; later calls raise UsageError."""
        ...


class Connections(Protocol):
    """Connections to the store's database for handlers that work in a transaction; an asyncio store
    that has such a thing has a method `connections()`.
    """

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

    async def wake(self, queue: str) -> None:
        """As `Joined.wake`."""
        ...


@runtime_checkable
class Measured(Protocol):
    """Of an asyncio store that knows numbers about itself; asking for them is no work."""

    def measures(self) -> Mapping[str, float]:
        """Some of: calls_waiting, connections_open, connections_idle, connections_max, commits,
        verbs_committed, file_bytes, disk_free_bytes.
        """
        ...


class Joined(Store, Protocol):
    """A store on a connection of the caller's: `run` is part of his transaction."""

    def wake(self, queue: str) -> None:
        """Tell who waits that there is news; after the commit, since no verb did."""
        ...


class AsyncJoined(AsyncStore, Protocol):
    """The same for asyncio callers."""

    async def wake(self, queue: str) -> None:
        """Tell who waits that there is news; after the commit, since no verb did."""
        ...

"""Connections of a store's database for handlers: blocking ones, and asyncio ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, runtime_checkable

from turnabout.store._sync.port import Joined
from turnabout.words.verb import Change
from turnabout.words.verbs import Verb


class Connections(Protocol):
    """Connections to a store's database for handlers that work in a transaction."""

    def open(self) -> Any:
        """A blocking connection. Raises: UsageError, Forbidden, Unavailable."""
        ...

    def transaction(self, connection: Any) -> Any:
        """A context: a transaction, committed at its end, rolled back if something is raised."""
        ...

    def put_back(self, connection: Any, *, keep: bool) -> None:
        """Its handler has ended: close it, or keep it for the next `open`. From any thread."""
        ...

    def is_lost(self, connection: Any) -> bool:
        """Whether it broke, as when the server went away."""
        ...

    def sever(self, connection: Any) -> None:
        """End a connection and its transaction from another thread than the one it is used in."""
        ...

    async def close(self) -> None:
        """Close those that were kept, and the others when they are put back."""
        ...

    def joined(self, connection: object, run: Callable[[Verb[Any]], Any]) -> Joined:
        """As `Store.within`, for a thread: `run` carries out a verb on the store itself."""
        ...

    def wake(self, queue: str, change: Change = Change.ANY, /) -> Awaitable[None]:
        """As `Joined.wake`; only those who wait for such a change."""
        ...


@runtime_checkable
class AsyncConnections(Connections, Protocol):
    """Where the database has connections for asyncio, too."""

    async def open_async(self) -> Any:
        """As `open`."""
        ...

    async def put_back_async(self, connection: Any, *, keep: bool) -> None:
        """As `put_back`."""
        ...

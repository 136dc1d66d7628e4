"""Connections of a store's database for handlers: blocking ones, and asyncio ones."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, runtime_checkable

from turnabout.store._sync.port import Joined

OnLoop = Callable[[Coroutine[Any, Any, Any]], Any]
"""Has a store's event loop do some work, and waits for it."""


class Connections(Protocol):
    """Connections to a store's database for handlers that work in a transaction."""

    def open(self) -> Any:
        """A blocking connection. Raises: UsageError, Forbidden, Unavailable."""
        ...

    def transaction(self, connection: Any) -> Any:
        """A context: a transaction, committed at its end, rolled back if something is raised."""
        ...

    def put_back(self, connection: Any, *, keep: bool) -> None:
        """Close it, or keep it for the next `open`, after its handler. From any thread."""
        ...

    def is_lost(self, connection: Any) -> bool:
        """Whether it broke, as when the server went away."""
        ...

    def sever(self, connection: Any) -> None:
        """End a connection and its transaction from another thread than the one it is used in."""
        ...

    def close(self) -> None:
        """Close those that were kept, and the others when they are put back."""
        ...

    def joined(self, connection: Any, on_loop: OnLoop) -> Joined:
        """Like `Store.within`, for a thread. `on_loop` runs background work on the store's loop."""
        ...


@runtime_checkable
class AsyncConnections(Connections, Protocol):
    """Connections of a database that also has them for asyncio."""

    async def open_async(self) -> Any:
        """See `open`."""
        ...

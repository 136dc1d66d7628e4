"""Connections of a store's database for handlers: blocking ones, and asyncio ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from turnabout.store._sync.port import Joined
from turnabout.words.verb import Change
from turnabout.words.verbs import Verb


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

    def sever(self, connection: Any) -> None:
        """End a connection and its transaction from another thread than the one it is used in."""
        ...

    def joined(self, connection: object, run: Callable[[Verb[Any]], Any]) -> Joined:
        """As `Store.within`, for a thread: `run` carries out a verb on the store itself."""
        ...

    def wake(self, queue: str, change: Change = Change.ANY, /) -> Awaitable[None]:
        """As `Joined.wake`; only those who wait for such a change."""
        ...

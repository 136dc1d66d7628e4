"""What all doors of one server share, and how a request gets its caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.requests import Request

from turnabout.server.counts import Counts
from turnabout.server.options import ServerOptions
from turnabout.store import AsyncStore
from turnabout.words.errors import Busy

if TYPE_CHECKING:
    from turnabout.server.auth.authenticator import Gate
    from turnabout.server.auth.authorized_store import Caller
    from turnabout.server.batching.long_poll import Parking

Background = Callable[[], Awaitable[None]]
"""Work beside the requests; begun again a second after it failed."""


class Crowd:
    """How many requests there are, and how many of them wait for something to happen.

    Each request is counted by the shield. One that waits counts as waiting, and not as one that
    wants the store.
    """

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        self.requests = 0
        self.waiting = 0
        self.body_bytes = 0
        """Of large bodies, which are in memory until their requests end."""

    @property
    def pending(self) -> int:
        """Requests that want the store, or have it."""
        return self.requests - self.waiting

    @property
    def is_full(self) -> bool:
        """Nobody else may come in now."""
        return self.pending >= self.options.max_pending

    @contextmanager
    def one(self) -> Generator[None]:
        """A block in which a request waits: `with house.polls.one(): …`.

        Raises: Busy when `max_polls` wait already.
        """
        if self.waiting >= self.options.max_polls:
            raise Busy(
                f"{self.waiting:,} requests wait already, and no more may (max_polls): "
                "repeat later, or without wait_seconds"
            )
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1


@dataclass(slots=True)
class House:
    """One server: its store, the ways into it, and whether it is closing."""

    store: AsyncStore
    """The store itself: for administration, health and metrics."""
    options: ServerOptions
    together: AsyncStore
    """The store with concurrent verbs merged: what callers run on."""
    parking: Parking
    gate: Gate
    polls: Crowd
    """Who waits takes a place here."""
    closing: bool = False
    """SIGTERM came: what waits is answered now, nothing new waits."""
    on_close: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    """Called once when `closing` is set: whoever holds waiting requests lets them go."""
    background: list[Background] = field(default_factory=list[Background])
    """Run from the start of the app to its end; a door may add one."""
    counts: Counts = field(default_factory=Counts)
    """What `/metrics` shows of this process."""
    connections: Callable[[], int] = lambda: 0
    """How many there are now; 0 where another server than ours runs the app."""

    async def caller(self, request: Request) -> Caller:
        """Who asks. Raises: Forbidden (no or no good token), Busy (over its request rate)."""
        caller = await self.gate.caller(request)
        request.state.caller = caller  # for the log
        return caller

    def close(self) -> None:
        """Begin to close: what waits is answered. Safe to repeat."""
        if self.closing:
            return
        self.closing = True
        for let_go in self.on_close:
            let_go()

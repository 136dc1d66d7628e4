"""What all doors of one server share, and how a request gets its caller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.requests import Request

from penstock.server.options import ServerOptions
from penstock.store import AsyncStore

if TYPE_CHECKING:
    from penstock.server.caller import Caller
    from penstock.server.gate import Gate
    from penstock.server.parking import Parking


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
    closing: bool = False
    """SIGTERM came: what waits is answered now, nothing new waits."""
    on_close: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    """Called once when `closing` is set: whoever holds waiting requests lets them go."""

    async def caller(self, request: Request) -> Caller:
        """Who asks. Raises: Forbidden (no or no good token), Busy (over its request rate)."""
        return await self.gate.caller(request)

"""The state that the APIs of one server share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request

from turnabout.server.auth.authorized_store import AuthorizedStore, Services
from turnabout.server.auth.rights import Rights
from turnabout.server.counts import ServerCounts
from turnabout.server.http.exchange import BELONGS
from turnabout.server.options import ServerOptions


@dataclass(slots=True)
class ServerContext(Services):
    """The parts of one server: its store, the APIs' access to it, its limits and its counts.

    `store` itself is for administration, health and metrics.
    """

    options: ServerOptions
    counts: ServerCounts
    """The part of `/metrics` that is about this process."""
    url: str | None = None
    """The database's, for `doctor`; never shown, as it may hold a password."""
    connections: Callable[[], int] = lambda: 0
    """The number of open connections; 0 where another server than ours runs the app."""

    def now(self) -> dict[str, float]:
        """Figures of this moment, of this process, for `ServerCounts.take`."""
        return {
            "http_requests_in_flight": self.counts.in_flight,
            "connections": self.connections(),
            "requests_pending": self.admission.pending,
            "polls": self.admission.waiting,
            "queues_unmaintained": self.long_poll.maintenance.failing,
            **{f"store_{name}": value for name, value in self.store.measures().items()},
        }

    async def caller(self, request: Request) -> AuthorizedStore:
        """The store that this request's verbs run on. Raises: Unauthorized, TooManyRequests."""
        return self.admit(request, await self.authenticator.authenticate(request.scope))

    def admit(self, request: Request, rights: Rights) -> AuthorizedStore:
        """The store of a caller with these rights, who is noted for the log and for limits."""
        caller = AuthorizedStore(self, rights)
        request.state.caller = caller  # for the log
        belongs: Callable[[str], None] | None = request.scope.get("extensions", {}).get(BELONGS)
        if belongs is not None:
            belongs(caller.namespace)
        return caller

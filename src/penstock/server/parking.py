"""Where receives wait for messages: one look for all who wait on a queue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from penstock._async.receiving import receive_in_turn
from penstock._async.shared import Shared
from penstock.store import AsyncStore
from penstock.words.outcomes import Received
from penstock.words.verbs import Receive


class Parking:
    """All waiting receives of one server."""

    def __init__(self, store: AsyncStore) -> None:
        self._shared = Shared(store)

    async def receive(
        self, verb: Receive, wait_seconds: float, gone: Callable[[], Awaitable[bool]]
    ) -> Received:
        """As the face's receive. What comes when the client is `gone` is released."""
        deliveries, retry_after_ms = await receive_in_turn(self._shared, verb, wait_seconds)
        return Received(tuple(deliveries), retry_after_ms)

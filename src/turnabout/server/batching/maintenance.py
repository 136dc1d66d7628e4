"""What a server does by itself: it maintains queues, and fires schedules that are due.

A receive over a library's connection does this on the way. A server does it beside, so that no
client waits for it, and even while nobody receives: a schedule is looked for once a second, as are
the queues that were received from since; and every queue has its turn.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from math import ceil

from turnabout._async.schedules import fire_when_due
from turnabout._async.shared import Shared
from turnabout.pacing import MAINTAIN_SECONDS
from turnabout.words.errors import Forbidden, Unavailable, Uncertain, UsageError
from turnabout.words.verbs import Maintain, QueueList

ROUND_SECONDS = 30.0
"""In which every queue is maintained once, if nobody receives from it."""
RECEIVED_SECONDS = 0.5
"""Of each second, for queues that are received from; where these are many, they take turns."""
MAINTAINS_MAX = 20
"""A second, in the round over all queues: where there are many, the round takes longer."""


class Maintenance:
    """One for a server; its memory is bounded by the queues that there are."""

    def __init__(self, shared: Shared) -> None:
        """`shared`: of the receives, which maintain on their way, too."""
        self._shared = shared
        self._left: list[str] = []
        self._share = 0
        self._received: dict[str, None] = {}

    def received_from(self, queue: str) -> None:
        """Somebody has looked for messages there, so maintenance may have something to do soon."""
        self._received[queue] = None

    async def run(self) -> None:
        """From the start of the server to its end."""
        self._shared.watch.found(any_there=True)  # it looks every second from the start
        while True:
            await asyncio.sleep(MAINTAIN_SECONDS)
            await self.step()

    async def step(self) -> None:
        """The work of each second."""
        with suppress(Unavailable, Uncertain, Forbidden):  # the next time will do
            await fire_when_due(self._shared)
            if not self._left:
                await self._begin_round()
            for _ in range(min(self._share, len(self._left))):
                await self._maintain(self._left.pop(), ROUND_SECONDS)
        until = time.monotonic() + RECEIVED_SECONDS
        for queue in list(self._received):
            if time.monotonic() >= until:
                break
            del self._received[queue]
            await self._maintain(queue, MAINTAIN_SECONDS)

    async def _maintain(self, queue: str, seconds: float) -> None:
        """Unless it was in the last `seconds`."""
        if self._shared.rounds.must_maintain(queue, seconds):
            # Deleted meanwhile, busy, or out of reach: it waits for another time.
            with suppress(Unavailable, Uncertain, UsageError):
                await self._shared.store.run(Maintain(queue))

    async def _begin_round(self) -> None:
        names = [entry.name for entry in await self._shared.store.run(QueueList())]
        self._left = names[::-1]
        self._share = min(ceil(len(names) / ROUND_SECONDS), MAINTAINS_MAX)
        self._shared.rounds.keep(set(names))

"""What a server does by itself: it maintains queues, and fires schedules that are due.

A receive over a library's connection does this on the way. Behind a server it is done even
while nobody receives: a schedule is looked for once a second, and every queue has its turn.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from math import ceil

from turnabout._async.schedules import fire_when_due
from turnabout._async.shared import Shared
from turnabout.pacing import MAINTAIN_SECONDS
from turnabout.words.errors import Forbidden, Unavailable, Uncertain, UsageError
from turnabout.words.verbs import Maintain, QueueList

ROUND_SECONDS = 10.0
"""In which every queue is maintained once, if nobody receives from it."""
MAINTAINS_MAX = 20
"""A second, in the round over all queues: where there are many, the round takes longer."""


class Maintenance:
    """One for a server; its memory is bounded by the queues that there are."""

    def __init__(self, shared: Shared) -> None:
        """`shared`: of the receives, which maintain on their way, too."""
        self._shared = shared
        self._left: list[str] = []
        self._share = 0

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
                queue = self._left.pop()
                if self._shared.rounds.must_maintain(queue):
                    # Deleted meanwhile, busy, or out of reach: it waits for another time.
                    with suppress(Unavailable, Uncertain, UsageError):
                        await self._shared.store.run(Maintain(queue))

    async def _begin_round(self) -> None:
        names = [entry.name for entry in await self._shared.store.run(QueueList())]
        self._left = names[::-1]
        self._share = min(ceil(len(names) / ROUND_SECONDS), MAINTAINS_MAX)
        self._shared.rounds.keep(set(names))

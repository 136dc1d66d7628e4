"""`Upkeep`: all queues of a database are maintained, though nobody may receive from them.

For who looks after a database: a server, `turnabout dev`. Looks say in which queues something is
due, and have a share of the time, however many queues there are. No look sees everything, so all
queues have their turn, too.
"""

from __future__ import annotations

import time
from contextlib import suppress

from turnabout._async.receiving import maintain, maintain_when_due
from turnabout._async.shared import Shared
from turnabout.waiting.pacing import MAINTAIN_SECONDS
from turnabout.words.administration import QueuesDue
from turnabout.words.errors import Forbidden, Unavailable, Uncertain
from turnabout.words.verbs import QueueList

ROUND_SECONDS = 30.0
"""Time between two looks for old rows, which read a little of every queue."""
LOOK_SHARE, LOOK_TIMES_MAX = 0.01, 20
"""Share of the time spent on looks: slow looks are spaced further apart, up to this factor."""
STEP_SECONDS = 0.5
"""Share of each second for due queues and for queues with receivers; if many, in turns."""


class Upkeep:
    """One for a process; its memory is bounded by what a look finds and by the queues there are."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._received: dict[str, None] = {}
        self._due: dict[str, None] = {}
        self._look_at = {True: 0.0, False: 0.0}
        self._last: str | None = None
        """The queue that had its turn last."""

    def received_from(self, queue: str) -> None:
        """Note that a receiver has looked for messages there: there may be work soon."""
        self._received[queue] = None

    async def step(self) -> None:
        """The work of each second."""
        if not self._due:
            with suppress(Unavailable, Uncertain, Forbidden):  # the next time will do
                await self._look(ROUND_SECONDS, old=True)
                await self._look(MAINTAIN_SECONDS, old=False)
                await self._take_turn()
        for found in (self._due, self._received):
            until = time.monotonic() + STEP_SECONDS
            for queue in list(found):
                if time.monotonic() >= until:
                    break
                del found[queue]
                if found is self._due:
                    await maintain(self._shared, queue)
                else:
                    await maintain_when_due(self._shared, queue)

    async def _look(self, seconds: float, *, old: bool) -> None:
        """Note where something is due, if it is time to look."""
        began = time.monotonic()
        if began < self._look_at[old]:
            return
        try:
            self._due.update(dict.fromkeys(await self._shared.store.run(QueuesDue(old))))
        finally:
            now = time.monotonic()
            rest = min((now - began) / LOOK_SHARE, seconds * LOOK_TIMES_MAX)
            self._look_at[old] = now + max(seconds, rest)
        if old:
            self._due.update(dict.fromkeys(self._shared.rounds.failing))  # or have they gone?

    async def _take_turn(self) -> None:
        turn = await self._shared.store.run(QueueList(after=self._last, limit=1))
        self._last = turn[0].name if turn else None
        self._due.update((entry.name, None) for entry in turn)

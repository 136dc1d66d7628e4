"""A server's background work: maintaining queues, firing due schedules, and the steps of redrives.

A receive over a library's connection does this on the way. A server does it separately, so that no
client waits for it, and even without receivers: once a second it looks for due schedules and for
queues with due work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Protocol

from turnabout._async.schedules import complain, fire
from turnabout._async.shared import Shared
from turnabout._async.upkeep import ROUND_SECONDS, Upkeep
from turnabout.waiting.pacing import MAINTAIN_SECONDS
from turnabout.words.errors import Forbidden, QuotaExceeded, Unavailable, Uncertain, UsageError
from turnabout.words.namespaces import namespace_of
from turnabout.words.outcomes import Sent
from turnabout.words.records import Redrive
from turnabout.words.schedules import ScheduleEntry
from turnabout.words.verbs import RedriveList, RedriveStep, ScheduleList, Send, Verb

PAUSE_SECONDS = 0.05
"""Minimum pause between two steps."""
FIRE_SECONDS = 0.5
"""Share of each second for due schedules; if there are many, namespaces take turns."""
FIRES_MAX = 100
"""Schedules read in one look."""
FIRES_BYTES = 8 * 1024 * 1024
"""Payload bytes of schedules read in one look."""
REDRIVES_MAX = 100
"""Redrives in progress; any others take a step with each maintenance of their queue."""


class Room(Protocol):
    """A bound on a namespace's sends, such as `NamespaceUsage`."""

    def room(self, verbs: Sequence[Verb[Any]]) -> AbstractAsyncContextManager[list[Any]]:
        """A block in which these are carried out. Raises: QuotaExceeded."""
        ...


UsageOf = Callable[[str], Awaitable[Room | None]]
"""The bound of a namespace; None: unlimited."""


async def _not_limited(_: str) -> None:
    return None


class Maintenance:
    """Maintains all queues of one server; uses memory only in proportion to their number."""

    def __init__(self, shared: Shared) -> None:
        """`shared`: the state of the receives, which do maintenance on their way, too."""
        self._shared = shared
        self.usage_of: UsageOf = _not_limited
        """Finds the bound on a namespace's sends; set by the server."""
        self.upkeep = Upkeep(shared)
        self._redrives_at = 0.0
        self._redrives: dict[int, Redrive] = {}
        self._has_redrives = asyncio.Event()

    @property
    def failing(self) -> int:
        """The number of queues that cannot be maintained."""
        return len(self._shared.rounds.failing)

    def saw(self, redrive: Redrive) -> None:
        """Take a running redrive on, and finish it here."""
        if redrive.state == "running" and len(self._redrives) < REDRIVES_MAX:
            self._redrives[redrive.id] = redrive
            self._has_redrives.set()

    async def run_redrives(self) -> None:
        """Advance each redrive in turn, for half of the time at most: requests get the rest."""
        while True:
            await self._has_redrives.wait()
            began = time.monotonic()
            moved = 0
            for before in list(self._redrives.values()):
                try:
                    moved += await self._redrive(before)
                except (Unavailable, Uncertain):
                    pass  # the next round will do
                except (Forbidden, UsageError):  # it is gone, or none of ours
                    del self._redrives[before.id]
            if not self._redrives:
                self._has_redrives.clear()
            took = time.monotonic() - began
            await asyncio.sleep(max(PAUSE_SECONDS, took) if moved else MAINTAIN_SECONDS)

    async def _redrive(self, before: Redrive) -> int:
        """A step; how many messages it has moved."""
        after = await self._shared.store.run(RedriveStep(before.id))
        self._redrives[before.id] = after
        if after.state != "running":
            del self._redrives[before.id]
        return after.moved - before.moved

    async def run(self) -> None:
        """Take a step each second, until the server ends."""
        pause = MAINTAIN_SECONDS
        while True:
            await asyncio.sleep(pause)
            began = time.monotonic()
            await self.step()
            # What is due each second is looked for each second, however long the work takes.
            pause = max(PAUSE_SECONDS, MAINTAIN_SECONDS - (time.monotonic() - began))

    async def step(self) -> None:
        """The work of each second."""
        with suppress(Unavailable, Uncertain, Forbidden):  # the next time will do
            await self._fire()
            if time.monotonic() >= self._redrives_at:
                for redrive in await self._shared.store.run(RedriveList(limit=REDRIVES_MAX)):
                    self.saw(redrive)  # begun by somebody who has gone
                self._redrives_at = time.monotonic() + ROUND_SECONDS
        await self.upkeep.step()

    async def _fire(self) -> None:
        """Fire schedules that are due, of all namespaces in turn, one after the other."""
        until = time.monotonic() + FIRE_SECONDS
        due = ScheduleList(due=True, limit=FIRES_MAX, room_bytes=FIRES_BYTES)
        failed: set[str] = set()
        while True:
            found = await self._shared.store.run(due)
            left = [entry for entry in found if entry.schedule.name not in failed]
            if not left:
                return
            for entry in left:
                if time.monotonic() >= until:
                    return
                try:
                    await self._fire_one(entry)
                except (Forbidden, UsageError) as error:
                    failed.add(entry.schedule.name)
                    if self._shared.watch.must_complain():
                        complain([error])

    async def _fire_one(self, entry: ScheduleEntry) -> None:
        """Send its messages, unless its namespace has no room for them."""
        store, schedule = self._shared.store, entry.schedule
        usage = await self.usage_of(namespace_of(schedule.name))
        if usage is None:
            await fire(store, entry)
            return
        try:
            async with usage.room([Send(schedule.queue, (schedule.message,))]) as outcomes:
                sent = await fire(store, entry)
                outcomes.extend(Sent((one.id,)) for one in sent)
        except QuotaExceeded:
            await fire(store, entry, refused=True)

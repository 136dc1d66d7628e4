"""Running a server: background work, and callbacks at the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

Background = Callable[[], Awaitable[None]]
"""Background work; started again a second after it failed."""

AGAIN_SECONDS = 1.0
"""Delay before failed background work is started again."""
FORCED_SECONDS = 2.0
"""Time for background work to end when the server does."""

log = logging.getLogger("turnabout.server")


class Lifecycle:
    """The state of a closing server, and the callbacks of that moment."""

    def __init__(self) -> None:
        self.leaving = False
        """The server will close: `/readyz` says so, and all is served still."""
        self.closing = False
        """Waiting requests are answered now, and no new ones may wait."""
        self.on_close: list[Callable[[], None]] = [self._end_waits]
        """Called once when `closing` is set: those that hold waiting requests let them go."""
        self.background: list[Background] = []
        self._waits: set[asyncio.Timeout] = set()

    def close(self) -> None:
        """Begin to close: answer waiting requests. Safe to repeat."""
        if self.closing:
            return
        self.leaving = self.closing = True
        for let_go in self.on_close:
            let_go()

    @asynccontextmanager
    async def ends_with_it(self) -> AsyncGenerator[None]:
        """A block that ends when the server closes."""
        with suppress(TimeoutError):  # by `close`, not by time
            async with asyncio.timeout(0 if self.closing else None) as limit:
                self._waits.add(limit)
                try:
                    yield
                finally:
                    self._waits.discard(limit)

    def _end_waits(self) -> None:
        for limit in self._waits:
            limit.reschedule(0)

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        """Do the work in the background during the block, and close at its end."""
        tasks = [asyncio.create_task(_keep_doing(work)) for work in self.background]
        try:
            yield
        finally:
            self.close()
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=FORCED_SECONDS)


async def _keep_doing(work: Background) -> None:
    while True:
        try:
            await work()
        except Exception:  # background work: the requests go on
            log.exception("work in the background failed, and begins again")
            await asyncio.sleep(AGAIN_SECONDS)
        else:
            return

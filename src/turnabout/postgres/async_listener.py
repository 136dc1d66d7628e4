"""Waiting of an asyncio store: one task listens on one connection for all who wait."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import psycopg

from turnabout.postgres.notifier import DebouncedNotifier
from turnabout.postgres.url import PostgresOptions


class AsyncListener:
    """Begins to listen when somebody waits. If its connection breaks, waiters poll meanwhile."""

    def __init__(
        self, options: PostgresOptions, send_late: Callable[[str], Awaitable[None]]
    ) -> None:
        """`send_late` notifies other processes; it is called at the end of a pause."""
        self._options = options
        self._send_late = send_late
        self._notifier = DebouncedNotifier()
        self._task: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()  # it listens, or has failed to: waiting may begin
        self._late: set[asyncio.Task[None]] = set()

    def changed(self, queue: str) -> bool:
        """A queue was changed here. True: notify the other processes now."""
        return self._notifier.changed(queue, self._later)

    def _later(self, queue: str, seconds: float) -> None:
        async def send() -> None:
            await asyncio.sleep(seconds)
            self._notifier.sent_late(queue)
            await self._send_late(queue)

        task = asyncio.ensure_future(send())
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def signal(self, queue: str) -> int:
        """How often the queue changed, from now on in other processes as well."""
        if self._task is None and self._options.listen:
            self._task = asyncio.ensure_future(self._listen())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ready.wait(), 1.0)
        return self._notifier.version(queue)

    async def wait(self, queue: str, seen: int, seconds: float) -> None:
        """Return when it is no longer `seen`, or after `seconds`."""
        await self._notifier.wait_async(queue, seen, seconds)

    async def _listen(self) -> None:
        while True:
            try:
                connection = await psycopg.AsyncConnection.connect(
                    self._options.conninfo, autocommit=True
                )
                async with connection:
                    await connection.execute("listen turnabout")
                    self._ready.set()
                    self._notifier.notify_all()
                    async for note in connection.notifies():
                        self._notifier.notify(note.payload)
            except psycopg.Error:
                self._ready.set()
                await asyncio.sleep(1.0)

    def stop(self) -> None:
        """Listen no longer; all who wait return."""
        for task in self._tasks():
            task.cancel()
        self._notifier.notify_all()

    async def join(self) -> None:
        """Wait until that is so."""
        await asyncio.gather(*self._tasks(), return_exceptions=True)

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [*self._late, *([self._task] if self._task else [])]

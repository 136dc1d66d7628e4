"""A listener's background work: in threads for blocking callers, in tasks for asyncio."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import psycopg

from turnabout.postgres.notices import PAUSE_SECONDS, REMOVE_WAITERS, Notices
from turnabout.postgres.notifier import RENEW_SECONDS

BEHIND_SECONDS = 0.004
"""Time beyond that after which the thread sends: a call has nearly always done it by then."""

Run = Callable[[bytes, Sequence[Any]], Sequence[Any]]
AsyncRun = Callable[[bytes, Sequence[Any]], Awaitable[Sequence[Any]]]
"""Runs a statement by itself."""


class Background:
    """Work in a thread of its own, from the first time that it is wanted."""

    LOOK_SECONDS = 0.5
    """Seconds that it listens at a time, so the longest time until it notices a closed store."""

    def __init__(self, work: Callable[[], None], name: str) -> None:
        self._work, self._name = work, name
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Nothing if it has begun; one thread for all."""
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                    thread.start()
                    self._thread = thread

    def stop(self) -> None:
        """Wait for its end; the work knows that the store was closed."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(2.0)

    def remove_waiters(self, used: psycopg.Connection[Any], run: Run, process: str) -> None:
        """Send the last notices on the connection that listened: all others may be busy."""
        psycopg.RawCursor(used).execute(REMOVE_WAITERS, (process,))


class LateNotices(Background):
    """Sends what was put off at the end of a busy stretch. Within it the calls do it that come
    anyway.
    """

    def __init__(self, notices: Notices, send: Callable[[], None]) -> None:
        super().__init__(self._keep_sending, "turnabout-notify")
        self._notices, self._send = notices, send
        self._has_some = threading.Event()
        self._wakes_at = math.inf
        self._stopped = False

    def wake(self) -> None:
        """Announce that there are notices."""
        self.begin()
        if self._notices.due_at < self._wakes_at:
            self._has_some.set()

    def stop(self) -> None:
        """Send no more."""
        self._stopped = True
        self._has_some.set()
        super().stop()

    def _keep_sending(self) -> None:
        seconds: float | None = None
        while not self._stopped:
            self._has_some.wait(seconds)
            self._has_some.clear()
            if self._notices.due_at <= time.monotonic():
                self._send()
            # In this order: a notice that comes in between sees that it has to wake us.
            self._wakes_at = math.inf
            # The very figure that `wake` compares: one a little later would wake us each time.
            self._wakes_at = due_at = self._notices.due_at
            seconds = None if due_at == math.inf else _seconds_left(due_at) + BEHIND_SECONDS


class AsyncBackground:
    """Work in a task of its own, from the first time that it is wanted."""

    LOOK_SECONDS = RENEW_SECONDS
    """Wake up only to renew rows; closing cuts it off."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        self._work, self._name = work, name
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Nothing if it has begun."""
        if self._task is None:
            self._task = asyncio.create_task(self._work(), name=self._name)

    async def stop(self) -> None:
        """Cut it off; it has a second to say goodbye."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=1.0)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def remove_waiters(self, used: object, run: AsyncRun, process: str) -> None:
        """Send the last notices on another connection: the one that listened was cut off."""
        await run(REMOVE_WAITERS, (process,))


class AsyncLateNotices(AsyncBackground):
    """Sends what was put off, until there is nothing left."""

    def __init__(self, notices: Notices, send: Callable[[], Awaitable[None]]) -> None:
        super().__init__(self._send_when_due, "turnabout-notify")
        self._notices, self._send = notices, send

    def wake(self) -> None:
        """Announce that there are notices."""
        if self._task is not None and self._task.done():
            self._task = None
        self.begin()

    async def _send_when_due(self) -> None:
        while self._notices.due_at < math.inf:
            # What comes meanwhile may be due sooner.
            await asyncio.sleep(min(_seconds_left(self._notices.due_at), PAUSE_SECONDS))
            await self._send()


def _seconds_left(due_at: float) -> float:
    """Time until notices are due; a moment if they are overdue, as no connection was idle."""
    return max(due_at - time.monotonic(), 0.0) or PAUSE_SECONDS

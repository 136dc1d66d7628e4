"""Waiting: one task, or thread, listens, and polls, for all who wait (`background`)."""

from __future__ import annotations

import contextlib
import os
import time
from asyncio import Event, Lock
from collections.abc import Awaitable, Callable, Sequence

import psycopg
from psycopg import sql

from turnabout.colours import wait_for_event_async
from turnabout.postgres.background import AsyncBackground, AsyncLateNotices, AsyncRun
from turnabout.postgres.errors import NoAnswer
from turnabout.postgres.notices import (
    ADD_WAITERS,
    QUEUES_MAX,
    QUEUES_TO_LOOK,
    Notice,
    Notices,
    change_of,
)
from turnabout.postgres.notifier import ListeningNotifier, Place
from turnabout.postgres.url import PostgresOptions, address
from turnabout.words.errors import TurnaboutError
from turnabout.words.verb import Change


class AsyncListener:
    """Begins to listen when somebody waits. If its connection breaks, waiters poll meanwhile."""

    def __init__(
        self, options: PostgresOptions, run: AsyncRun, send_notices: Callable[[], Awaitable[None]]
    ) -> None:
        """`run` runs a statement by itself. `send_notices` sends the notices that are due,
        if there is a connection that is idle.
        """
        self._options = options
        self._run = run
        self._send_notices = send_notices
        self._closed = Event()
        self._begin()

    def _begin(self) -> None:
        """State of this process."""
        self._pid = os.getpid()
        self._notifier = ListeningNotifier()
        self._notices = Notices(self._notifier.process)
        self._ready = Event()  # it listens, or has failed to: waiting may begin
        self._is_listening = False
        self._writing = Lock()
        self._work = AsyncBackground(self._keep_listening, "turnabout-listen")
        self._late = AsyncLateNotices(self._notices, self._send_notices)

    @property
    def notices(self) -> Notices:
        """Notices for other processes. A child process sends, and listens, for itself."""
        if self._pid != os.getpid():
            self._begin()
        return self._notices

    def changed(self, notices: Sequence[Notice]) -> None:
        """Note changes made here. Only the database knows whose slots an end has freed."""
        pending, notifier = self.notices, self._notifier
        for notice in notices:
            queue, change = notice.queue, notice.change
            was_notified = notifier.is_waited_for(queue, Change.READY)
            notifier.notify(queue, change=change if self._options.listen else Change.ANY)
            pending.add((notice._replace(was_notified=True) if was_notified else notice,))

    def has_room(self, queue: str) -> None:
        """Receivers of this process may look: an end has freed a slot."""
        self._notifier.notify(queue, change=Change.READY)

    async def signal(self, queue: str, change: Change) -> int:
        """Return the queue's version, and listen for changes by other processes from now on."""
        if self._pid != os.getpid():
            self._begin()
        self._work.begin()
        await wait_for_event_async(self._ready, 1.0)
        seen = self._notifier.version(queue, change)
        if self._is_listening and self._notifier.want((queue, change)):
            async with self._writing:
                await self._write(self._notifier.to_write())
        return seen

    async def wait(self, queue: str, seen: int, seconds: float, change: Change) -> None:
        """Return when it is no longer `seen`, or after `seconds`; polling is for receivers only."""
        if change != Change.READY:
            seconds = min(seconds, self._options.poll_seconds)
        await self._notifier.wait_async(queue, seen, seconds, change)

    def send_later(self) -> None:
        """True if notices wait until they are due."""
        self._late.wake()

    async def _write(self, places: Sequence[Place], *, sweep: bool = False) -> None:
        """Rows of this process; where that fails, polling must do."""
        with contextlib.suppress(psycopg.Error, TurnaboutError):
            for start in range(0, len(places), QUEUES_MAX):
                some = places[start : start + QUEUES_MAX]
                await self._run(ADD_WAITERS, self._notifier.parameters(some, sweep=sweep))
                self._notifier.were_written(some)

    async def _keep_listening(self) -> None:
        while not self._closed.is_set():
            try:
                if self._options.listen:
                    await self._listen()
                    continue
                self._ready.set()
                await wait_for_event_async(self._closed, self._options.poll_seconds)
                if not self._closed.is_set():
                    await self._poll()
            except (psycopg.Error, TurnaboutError):
                self._is_listening = False
                self._ready.set()
                self._notifier.lost()
                await wait_for_event_async(self._closed, min(self._options.poll_seconds, 1.0))

    async def _listen(self) -> None:
        """Listen until the connection breaks, or the store is closed."""
        where = address(self._options.conninfo, "turnabout listen")
        async with await psycopg.AsyncConnection.connect(where, autocommit=True) as connection:
            channel = sql.Identifier(self._notifier.listens_on)
            await connection.execute(sql.SQL("listen {}").format(channel))
            self._is_listening = True
            self._notifier.lost()
            self._ready.set()
            poll_at = time.monotonic() + self._options.poll_seconds
            try:
                while not self._closed.is_set():
                    if (left := poll_at - time.monotonic()) > 0:
                        seconds = min(left, self._work.LOOK_SECONDS)
                        async for note in connection.notifies(timeout=seconds):
                            self._notified(note.payload)
                        await self._renew()
                    else:
                        await self._poll()
                        poll_at = time.monotonic() + self._options.poll_seconds
            finally:
                if self._closed.is_set():
                    with contextlib.suppress(psycopg.Error, TurnaboutError):
                        await self._work.remove_waiters(
                            connection, self._run, self._notifier.process
                        )

    def _notified(self, payload: str) -> None:
        queue, change = change_of(payload)
        if not self._notifier.notified(queue, change):
            self.notices.add((Notice(queue, Change.READY, 1),))
            self.send_later()

    async def _poll(self) -> None:
        """Look for changes that came without a notification, for all receivers in one call."""
        queues = [queue for queue, wanted in self._notifier.waited_for() if wanted & Change.READY]
        if queues:
            within_ms = round(self._options.poll_seconds * 1000)
            try:
                found = await self._run(QUEUES_TO_LOOK, (queues, within_ms))
            except (psycopg.Error, TurnaboutError) as error:
                self._notifier.notify_all()  # the error is for those who wait
                if isinstance(error, NoAnswer):
                    raise  # what listens hears no more, either
                return
            for (queue,) in found:
                self._notifier.notify(queue, change=Change.READY)

    async def _renew(self) -> None:
        """The rows of those who wait still, from time to time."""
        async with self._writing:
            await self._write(self._notifier.to_renew(time.monotonic()), sweep=True)

    async def stop(self) -> None:
        """Listen no longer; all who wait return."""
        self._closed.set()
        self._notifier.lost()
        if self._pid == os.getpid():
            await self._late.stop()
            await self._work.stop()

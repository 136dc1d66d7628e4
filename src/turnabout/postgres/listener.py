"""Waiting of a blocking store: one thread listens, and polls, for all who wait."""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg import sql

from turnabout.postgres.errors import NoAnswer
from turnabout.postgres.notices import (
    ADD_WAITERS,
    PAUSE_SECONDS,
    QUEUES_MAX,
    QUEUES_TO_LOOK,
    REMOVE_WAITERS,
    Notice,
    Notices,
    change_of,
)
from turnabout.postgres.notifier import ListeningNotifier, Place
from turnabout.postgres.url import PostgresOptions, address
from turnabout.words.errors import TurnaboutError
from turnabout.words.verb import Change

Run = Callable[[bytes, Sequence[Any]], Sequence[Any]]

CLOSE_SECONDS = 0.5
"""How long the listening thread may take to notice that the store was closed."""


class Listener:
    """Begins to listen when somebody waits. If its connection breaks, waiters poll meanwhile."""

    def __init__(
        self, options: PostgresOptions, run: Run, send_notices: Callable[[], None]
    ) -> None:
        """`run` runs a statement by itself. `send_notices` sends the notices that are due,
        if there is a connection that is idle.
        """
        self._options = options
        self._run = run
        self._send_notices = send_notices
        self._closed = threading.Event()
        self._begin()

    def _begin(self) -> None:
        """What belongs to this process."""
        self._pid = os.getpid()
        self._notifier = ListeningNotifier()
        self._notices = Notices(self._notifier.process)
        self._ready = threading.Event()  # it listens, or has failed to: waiting may begin
        self._is_listening = False
        self._writing = threading.Lock()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._late: threading.Thread | None = None
        self._has_late = threading.Event()
        self._wakes_at = math.inf

    @property
    def notices(self) -> Notices:
        """What other processes have to know. A child sends, and listens, for itself."""
        if self._pid != os.getpid():
            self._begin()
        return self._notices

    def changed(self, notices: Sequence[Notice]) -> None:
        """Something was changed here. Only the database knows whose slots an end has freed."""
        pending, notifier = self.notices, self._notifier
        for notice in notices:
            queue, change = notice.queue, notice.change
            was_notified = notifier.is_waited_for(queue, Change.READY)
            notifier.notify(queue, change=change if self._options.listen else Change.ANY)
            pending.add((notice._replace(was_notified=True) if was_notified else notice,))

    def has_room(self, queue: str) -> None:
        """Receivers of this process may look: an end has freed a slot."""
        self._notifier.notify(queue, change=Change.READY)

    def signal(self, queue: str, change: Change) -> int:
        """How often the queue changed, from now on in other processes as well."""
        if self._pid != os.getpid():
            self._begin()
        if self._thread is None:
            self._thread = self._started("_thread", self._keep_listening, "turnabout-listen")
        self._ready.wait(1.0)
        seen = self._notifier.version(queue, change)
        if self._is_listening and self._notifier.want((queue, change)):
            with self._writing:
                self._write(self._notifier.to_write())
        return seen

    def wait(self, queue: str, seen: int, seconds: float, change: Change) -> None:
        """Return when it is no longer `seen`, or after `seconds`; polling is for receivers only."""
        if change != Change.READY:
            seconds = min(seconds, self._options.poll_seconds)
        self._notifier.wait(queue, seen, seconds, change)

    def send_later(self) -> None:
        """There are notices that are not due yet."""
        if self._late is None:
            self._late = self._started("_late", self._keep_telling, "turnabout-notify")
        if self._notices.due_at < self._wakes_at:
            self._has_late.set()

    def _started(self, name: str, work: Callable[[], None], thread_name: str) -> threading.Thread:
        """The thread of that name; one for all."""
        with self._starting:
            thread: threading.Thread | None = getattr(self, name)
            if thread is None:
                thread = threading.Thread(target=work, name=thread_name, daemon=True)
                thread.start()
            return thread

    def _keep_telling(self) -> None:
        """At the end of a busy stretch. Within it the calls do it that come anyway."""
        seconds: float | None = None
        while not self._closed.is_set():
            self._has_late.wait(seconds)
            self._has_late.clear()
            if self._notices.are_pending and self._notices.due_at <= time.monotonic():
                self._send_notices()
            # In this order: a notice that comes in between sees that it has to wake us.
            self._wakes_at = math.inf
            seconds = None
            if self._notices.are_pending:
                now = time.monotonic()
                seconds = max(self._notices.due_at - now, 0.0) or PAUSE_SECONDS
                self._wakes_at = now + seconds

    def _write(self, places: Sequence[Place], *, sweep: bool = False) -> None:
        """Rows of this process; where that fails, polling must do."""
        with contextlib.suppress(psycopg.Error, TurnaboutError):
            for start in range(0, len(places), QUEUES_MAX):
                some = places[start : start + QUEUES_MAX]
                self._run(ADD_WAITERS, self._notifier.parameters(some, sweep=sweep))
                self._notifier.were_written(some)

    def _keep_listening(self) -> None:
        while not self._closed.is_set():
            try:
                if self._options.listen:
                    self._listen()
                    continue
                self._ready.set()
                if not self._closed.wait(self._options.poll_seconds):
                    self._poll()
            except (psycopg.Error, TurnaboutError):
                self._is_listening = False
                self._ready.set()
                self._notifier.lost()
                self._closed.wait(min(self._options.poll_seconds, 1.0))

    def _listen(self) -> None:
        """Until the connection breaks, or the store is closed."""
        where = address(self._options.conninfo, "turnabout listen")
        with psycopg.connect(where, autocommit=True) as connection:
            channel = sql.Identifier(self._notifier.listens_on)
            connection.execute(sql.SQL("listen {}").format(channel))
            self._is_listening = True
            self._notifier.lost()
            self._ready.set()
            while True:
                poll_at = time.monotonic() + self._options.poll_seconds
                while (left := poll_at - time.monotonic()) > 0:
                    for note in connection.notifies(timeout=min(left, CLOSE_SECONDS)):
                        self._notified(note.payload)
                    self._renew()
                    if self._closed.is_set():
                        process = (self._notifier.process,)
                        psycopg.RawCursor(connection).execute(REMOVE_WAITERS, process)
                        return
                self._poll()

    def _notified(self, payload: str) -> None:
        queue, change = change_of(payload)
        if not self._notifier.notified(queue, change):
            self._notices.add((Notice(queue, Change.READY, 1),))
            self.send_later()

    def _poll(self) -> None:
        """What came without a notification, for all receivers in one call."""
        queues = [queue for queue, wanted in self._notifier.waited_for() if wanted & Change.READY]
        if queues:
            within_ms = round(self._options.poll_seconds * 1000)
            try:
                found = self._run(QUEUES_TO_LOOK, (queues, within_ms))
            except (psycopg.Error, TurnaboutError) as error:
                self._notifier.notify_all()  # the error is for those who wait
                if isinstance(error, NoAnswer):
                    raise  # what listens hears no more, either
                return
            for (queue,) in found:
                self._notifier.notify(queue, change=Change.READY)

    def _renew(self) -> None:
        """The rows of those who wait still, from time to time."""
        with self._writing:
            self._write(self._notifier.to_renew(time.monotonic()), sweep=True)

    def stop(self) -> None:
        """Listen no longer; all who wait return."""
        self._closed.set()
        self._has_late.set()
        self._notifier.lost()
        if self._pid != os.getpid():
            return
        for thread in (self._thread, self._late):
            if thread is not None and thread is not threading.current_thread():
                thread.join(2.0)

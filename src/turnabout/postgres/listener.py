"""Waiting of a blocking store: one thread listens on one connection for all who wait."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import psycopg

from turnabout.postgres.notifier import DebouncedNotifier
from turnabout.postgres.url import PostgresOptions


class Listener:
    """Begins to listen when somebody waits. If its connection breaks, waiters poll meanwhile."""

    def __init__(self, options: PostgresOptions, send_late: Callable[[str], None]) -> None:
        """`send_late` notifies other processes; it is called at the end of a pause."""
        self._options = options
        self._send_late = send_late
        self._notifier = DebouncedNotifier()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._ready = threading.Event()  # it listens, or has failed to: waiting may begin
        self._closed = threading.Event()
        self._pid = os.getpid()

    def changed(self, queue: str) -> bool:
        """A queue was changed here. True: notify the other processes now."""
        return self._notifier.changed(queue, self._later)

    def _later(self, queue: str, seconds: float) -> None:
        def send() -> None:
            self._notifier.sent_late(queue)
            if not self._closed.is_set():
                self._send_late(queue)

        timer = threading.Timer(seconds, send)
        timer.daemon = True
        timer.start()

    def signal(self, queue: str) -> int:
        """How often the queue changed, from now on in other processes as well."""
        if self._pid != os.getpid():  # a forked child listens for itself
            self._pid, self._notifier, self._thread = os.getpid(), DebouncedNotifier(), None
            self._lock, self._ready = threading.Lock(), threading.Event()
        if self._thread is None and self._options.listen:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._listen, name="turnabout-listen", daemon=True
                    )
                    self._thread.start()
            self._ready.wait(1.0)
        return self._notifier.version(queue)

    def wait(self, queue: str, seen: int, seconds: float) -> None:
        """Return when it is no longer `seen`, or after `seconds`."""
        self._notifier.wait(queue, seen, seconds)

    def _listen(self) -> None:
        while not self._closed.is_set():
            try:
                with psycopg.connect(self._options.conninfo, autocommit=True) as connection:
                    connection.execute("listen turnabout")
                    self._ready.set()
                    self._notifier.notify_all()
                    while not self._closed.is_set():
                        for note in connection.notifies(timeout=0.5):
                            self._notifier.notify(note.payload)
                            if self._closed.is_set():
                                return
            except psycopg.Error:
                self._ready.set()
                self._closed.wait(1.0)

    def stop(self) -> None:
        """Listen no longer; all who wait return."""
        self._closed.set()
        self._notifier.notify_all()

    def join(self) -> None:
        """Wait until that is so."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(2.0)

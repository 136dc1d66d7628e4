"""Notifications of a file: of commits in this process at once, of those in others by looking.

SQLite tells nobody of a commit. `pragma data_version` changes when another connection has
committed and costs a few microseconds, so while somebody waits one thread asks it every 10 ms.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable

from turnabout.waiting.notifier import Callback, Notifier
from turnabout.words.verb import Change

LOOK_SECONDS = 0.01


class FileNotifier(Notifier):
    """See `Notifier`. One for each opened store."""

    def __init__(self, watch: Callable[[], sqlite3.Connection] | None) -> None:
        """`watch` opens the connection to look with; None: no other process can commit."""
        super().__init__(None if watch is None else self._start_looking)
        self._watch = watch
        self._looking = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._data_version = 0
        self._wanted = threading.Event()
        self._looker: threading.Thread | None = None

    def signal(self, queue: str, change: Change = Change.ANY) -> int:
        """The version, with the commits of all processes in it."""
        self._look()
        return self.version(queue, change)

    def subscribe(
        self, queue: str, seen: int, callback: Callback, change: Change = Change.ANY
    ) -> bool:
        """See `Notifier.subscribe`."""
        self._look()
        return super().subscribe(queue, seen, callback, change)

    def close(self) -> None:
        """Make all waiters return, and stop looking."""
        super().close()
        self._wanted.set()
        with self._looking:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _look(self) -> None:
        """Notify all if somebody has committed since the last look, or if that cannot be known."""
        if self._watch is None:
            return
        with self._looking:
            if self.closed:
                return
            try:
                if self._connection is None:
                    self._connection = self._watch()
                (version,) = self._connection.execute("pragma data_version").fetchone()
            except sqlite3.Error:
                version = self._data_version + 1
            if version == self._data_version:
                return
            self._data_version = version
        self.notify_all()

    def _start_looking(self, *_: object) -> None:
        with self._looking:
            if self._looker is None:
                self._looker = threading.Thread(
                    target=self._keep_looking, name="turnabout-sqlite-looks", daemon=True
                )
                self._looker.start()
        self._wanted.set()

    def _keep_looking(self) -> None:
        while not self.closed:
            while not self._waiting and not self.closed:
                self._wanted.clear()
                if not self._waiting and not self.closed:  # a waiter comes first, then sets it
                    self._wanted.wait()
            self._look()
            time.sleep(LOOK_SECONDS)

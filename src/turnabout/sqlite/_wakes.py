"""News of queues, for those who wait: from this process at once, from others by looking.

SQLite tells nobody of a commit. `pragma data_version` changes when another connection has
committed and costs a few microseconds, so while somebody waits one thread asks it every 10 ms.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable

LOOK_SECONDS = 0.01


class Wakes:
    """Numbers that change with news, and who wants to be told. One for each opened store."""

    def __init__(self, watch: Callable[[], sqlite3.Connection] | None) -> None:
        """`watch` opens the connection to look with; None: no other process can commit."""
        self._watch = watch
        self._connection: sqlite3.Connection | None = None
        self._version = 0
        self._elsewhere = 0
        self._numbers: dict[str, int] = {}
        self._waiting: dict[str, list[Callable[[], object]]] = {}
        self._lock = threading.Lock()
        self._wanted = threading.Condition(self._lock)
        self._looker: threading.Thread | None = None
        self.closed = False

    def signal(self, queue: str) -> int:
        """A number that is another one after any news of the queue, from whichever process."""
        with self._lock:
            self._look()
            return self._number(queue)

    def notify(self, queues: Iterable[str]) -> None:
        """News of these queues was committed in this process."""
        with self._lock:
            told = [self._tell(queue) for queue in queues]
        _call(told)

    def subscribe(self, queue: str, seen: int, callback: Callable[[], object]) -> bool:
        """Have `callback` called once, at the next news. False: the news is here already."""
        with self._lock:
            self._look()
            if self.closed or self._number(queue) != seen:
                return False
            self._waiting.setdefault(queue, []).append(callback)
            self._start_looking()
            return True

    def unsubscribe(self, queue: str, callback: Callable[[], object]) -> None:
        with self._lock:
            callbacks = self._waiting.get(queue, [])
            if callback in callbacks:
                callbacks.remove(callback)
            if not callbacks:
                self._waiting.pop(queue, None)

    def wait(self, queue: str, seen: int, seconds: float) -> None:
        """Return at the next news, or after `seconds`."""
        told = threading.Event()
        if self.subscribe(queue, seen, told.set):
            try:
                told.wait(seconds)
            finally:
                self.unsubscribe(queue, told.set)

    def close(self) -> None:
        """Wake everybody who waits, and stop looking."""
        with self._lock:
            self.closed = True
            told = [self._tell(queue) for queue in list(self._waiting)]
            self._wanted.notify_all()
            if self._connection is not None:
                self._connection.close()
                self._connection = None
        _call(told)

    def _number(self, queue: str) -> int:
        return self._elsewhere + self._numbers.get(queue, 0)

    def _tell(self, queue: str) -> list[Callable[[], object]]:
        self._numbers[queue] = self._numbers.get(queue, 0) + 1
        return self._waiting.pop(queue, [])

    def _look(self) -> bool:
        """Whether somebody has committed since the last look. A failed look is news, too."""
        if self._watch is None or self.closed:
            return False
        try:
            if self._connection is None:
                self._connection = self._watch()
            (version,) = self._connection.execute("pragma data_version").fetchone()
        except sqlite3.Error:
            version = self._version + 1
        if version == self._version:
            return False
        self._version = version
        self._elsewhere += 1
        return True

    def _start_looking(self) -> None:
        if self._watch is None:
            return
        if self._looker is None:
            self._looker = threading.Thread(
                target=self._keep_looking, name="turnabout-sqlite-wakes", daemon=True
            )
            self._looker.start()
        self._wanted.notify()

    def _keep_looking(self) -> None:
        while not self.closed:
            with self._lock:
                while not self._waiting and not self.closed:
                    self._wanted.wait()
                told = list(self._waiting.values()) if self._look() else []
                if told:
                    self._waiting.clear()
            _call(told)
            time.sleep(LOOK_SECONDS)


def _call(told: Iterable[Iterable[Callable[[], object]]]) -> None:
    """Tell the waiting, outside the lock."""
    for callbacks in told:
        for callback in callbacks:
            callback()

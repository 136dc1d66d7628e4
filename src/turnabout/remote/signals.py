"""What is known of the news of queues, and who wants to be told: without network, for any thread.

A queue's number here changes with everything that the server tells of it. It may be an old one,
from the last time that somebody waited: then the server tells at once that it is, and whoever waits
looks once more than needed. Nothing is slept over, and the server is asked for a number only once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple


class Heard(NamedTuple):
    """What a server has told: its own number for a queue, which means nothing to another server."""

    signal: int
    instance: str


class Signals:
    """Numbers that change with news, and who waits for that."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}
        self._heard: dict[str, Heard] = {}
        self._waiting: dict[str, list[Callable[[], object]]] = {}
        self.closed = False

    def number(self, queue: str) -> int:
        """The number now; news that was heard before is in it."""
        return self._numbers.get(queue, 0)

    def heard(self, queue: str) -> Heard | None:
        """What the server said last."""
        return self._heard.get(queue)

    def hear(self, queue: str, heard: Heard) -> None:
        """The server has said this. Tells who waits, if it is another number."""
        with self._lock:
            if self._heard.get(queue) == heard:
                return
            self._heard[queue] = heard
            self._numbers[queue] = self._numbers.get(queue, 0) + 1
            told = self._waiting.pop(queue, [])
        _call(told)

    def wake(self, queue: str) -> None:
        """The server cannot be asked: whoever waits looks for himself."""
        with self._lock:
            told = self._waiting.pop(queue, [])
        _call(told)

    def is_waited_for(self, queue: str) -> bool:
        """Whether anybody waits for news of the queue."""
        return queue in self._waiting

    def subscribe(self, queue: str, seen: int, callback: Callable[[], object]) -> bool:
        """Have `callback` called once, at the next news. False: the news is here already."""
        with self._lock:
            if self.closed or self._numbers.get(queue, 0) != seen:
                return False
            self._waiting.setdefault(queue, []).append(callback)
            return True

    def unsubscribe(self, queue: str, callback: Callable[[], object]) -> None:
        """No longer; nothing if it was called already."""
        with self._lock:
            callbacks = self._waiting.get(queue, [])
            if callback in callbacks:
                callbacks.remove(callback)
            if not callbacks:
                self._waiting.pop(queue, None)

    def close(self) -> None:
        """Wake everybody who waits; nobody waits any more."""
        with self._lock:
            self.closed = True
            told = [callback for callbacks in self._waiting.values() for callback in callbacks]
            self._waiting.clear()
        _call(told)


def _call(told: list[Callable[[], object]]) -> None:
    """Tell the waiting, outside the lock."""
    for callback in told:
        callback()

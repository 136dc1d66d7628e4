"""Waiting for a change in a queue, and notifying the waiters: one class for all stores, any thread.

Each queue has a version here, which changes with every notification that may matter to its
waiters. A waiter asks for the version before it looks, so it misses nothing in between. Where
notifications come from (this process, other processes, a server) is the stores' business.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

Callback = Callable[[], object]


class Notifier:
    """Versions of queues, and callbacks for when they change."""

    def __init__(self, begins: Callable[[str], object] | None = None) -> None:
        """`begins` is called whenever somebody begins to wait on a queue."""
        self._begins = begins
        self._lock = threading.Lock()  # never held while a callback runs
        self._versions: dict[str, int] = {}
        self._all = 0
        self._waiting: dict[str, list[Callback]] = {}
        self.closed = False

    def version(self, queue: str) -> int:
        """The version now."""
        return self._all + self._versions.get(queue, 0)

    def notify(self, *queues: str) -> None:
        """Something changed in these queues."""
        with self._lock:
            callbacks: list[Callback] = []
            for queue in queues:
                self._versions[queue] = self._versions.get(queue, 0) + 1
                callbacks += self._waiting.pop(queue, ())
        _call(callbacks)

    def notify_all(self) -> None:
        """Something may have changed in any queue, or the waiters have to leave."""
        with self._lock:
            self._all += 1
            callbacks = self._everyone()
        _call(callbacks)

    def release(self, queue: str) -> None:
        """Nothing is known to have changed, but waiters should look for themselves."""
        with self._lock:
            callbacks = self._waiting.pop(queue, [])
        _call(callbacks)

    def is_waited_for(self, queue: str) -> bool:
        """Whether anybody waits on the queue."""
        return queue in self._waiting

    def subscribe(self, queue: str, seen: int, callback: Callback) -> bool:
        """Have `callback` called once, at the next change. False: it has changed already."""
        with self._lock:
            if self.closed or self.version(queue) != seen:
                return False
            self._waiting.setdefault(queue, []).append(callback)
        if self._begins is not None:
            self._begins(queue)
        return True

    def unsubscribe(self, queue: str, callback: Callback) -> None:
        """No longer; nothing if it was called already."""
        with self._lock:
            callbacks = self._waiting.get(queue, [])
            with suppress(ValueError):
                callbacks.remove(callback)
            if not callbacks:
                self._waiting.pop(queue, None)

    def wait(self, queue: str, seen: int, seconds: float) -> None:
        """Return when the version is no longer `seen`, or after `seconds`."""
        changed = threading.Event()
        try:
            if self.subscribe(queue, seen, changed.set):
                changed.wait(seconds)
        finally:
            self.unsubscribe(queue, changed.set)

    async def wait_async(self, queue: str, seen: int, seconds: float) -> None:
        """The same on an event loop; notifications may come from other threads."""
        import asyncio

        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            with suppress(RuntimeError):  # the loop was closed: nobody waits there
                loop.call_soon_threadsafe(changed.set)

        try:
            if self.subscribe(queue, seen, tell):
                with suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), seconds)
        finally:
            self.unsubscribe(queue, tell)

    def close(self) -> None:
        """All waiters return, and later ones at once."""
        with self._lock:
            self.closed = True
            callbacks = self._everyone()
        _call(callbacks)

    def _everyone(self) -> list[Callback]:
        callbacks = [callback for waiting in self._waiting.values() for callback in waiting]
        self._waiting.clear()
        return callbacks


def _call(callbacks: Iterable[Callback]) -> None:
    for callback in callbacks:
        callback()

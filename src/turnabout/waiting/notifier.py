"""Waiting for a change in a queue, and notifying the waiters: one class for all stores, any thread.

Each queue has a version here for each kind of change, which changes with every notification that
may matter to its waiters. A waiter asks for the version before it looks, so it misses nothing in
between. Where notifications come from (this process, other processes, a server) is the stores'
business.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from turnabout.words.verb import Change

Callback = Callable[[], object]


class Notifier:
    """Versions of queues, and callbacks for when they change."""

    def __init__(self, begins: Callable[[str, Change], object] | None = None) -> None:
        """`begins` is called whenever somebody begins to wait on a queue, and for what."""
        self._begins = begins
        self._lock = threading.Lock()  # never held while a callback runs
        ready, ended = dict[str, int](), dict[str, int]()
        self._versions = {
            Change.NOTHING: (),
            Change.READY: (ready,),
            Change.ENDED: (ended,),
            Change.ANY: (ready, ended),
        }
        """The counters that each kind of change moves, by the names of queues."""
        self._all = 0
        self._waiting: dict[str, list[tuple[Callback, Change]]] = {}
        self.closed = False

    def version(self, queue: str, change: Change = Change.ANY) -> int:
        """The version now, as far as these changes go."""
        return self._all + sum([count.get(queue, 0) for count in self._versions[change]])

    def notify(self, *queues: str, change: Change = Change.ANY) -> None:
        """Announce a possible change in these queues."""
        callbacks: list[Callback] = []
        with self._lock:
            for queue in queues:
                for count in self._versions[change]:
                    count[queue] = count.get(queue, 0) + 1
                if queue in self._waiting:
                    callbacks += self._pop(queue, change)
        _call(callbacks)

    def notify_all(self) -> None:
        """Notify waiters of all queues: any may have changed, or the waiters have to leave."""
        with self._lock:
            self._all += 1
            callbacks = self._everyone()
        _call(callbacks)

    def release(self, queue: str, change: Change = Change.ANY) -> None:
        """Nothing is known to have changed, but waiters should look for themselves."""
        with self._lock:
            callbacks = self._pop(queue, change)
        _call(callbacks)

    def is_waited_for(self, queue: str, change: Change = Change.ANY) -> bool:
        """Whether anybody waits for such a change in the queue."""
        waiting = self._waiting.get(queue)
        return waiting is not None and any(change & wanted for _, wanted in waiting)

    def waited_for(self) -> list[tuple[str, Change]]:
        """The queues where somebody waits, and for what."""
        with self._lock:
            return sorted(
                {(queue, one) for queue, some in self._waiting.items() for _, one in some}
            )

    def subscribe(
        self, queue: str, seen: int, callback: Callback, change: Change = Change.ANY
    ) -> bool:
        """Have `callback` called once, at the next change. False: it has changed already."""
        with self._lock:
            if self.closed or self.version(queue, change) != seen:
                return False
            self._waiting.setdefault(queue, []).append((callback, change))
        if self._begins is not None:
            self._begins(queue, change)
        return True

    def unsubscribe(self, queue: str, callback: Callback) -> None:
        """No longer; nothing if it was called already."""
        with self._lock:
            left = [one for one in self._waiting.get(queue, ()) if one[0] != callback]
            if left:
                self._waiting[queue] = left
            else:
                self._waiting.pop(queue, None)

    def wait(self, queue: str, seen: int, seconds: float, change: Change = Change.ANY) -> None:
        """Return when the version is no longer `seen`, or after `seconds`."""
        changed = threading.Event()
        try:
            if self.subscribe(queue, seen, changed.set, change):
                changed.wait(seconds)
        finally:
            self.unsubscribe(queue, changed.set)

    async def wait_async(
        self, queue: str, seen: int, seconds: float, change: Change = Change.ANY
    ) -> None:
        """The same on an event loop; notifications may come from other threads."""
        import asyncio

        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            with suppress(RuntimeError):  # the loop was closed: nobody waits there
                loop.call_soon_threadsafe(changed.set)

        try:
            if self.subscribe(queue, seen, tell, change):
                with suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), seconds)
        finally:
            self.unsubscribe(queue, tell)

    def close(self) -> None:
        """Make all waiters return, and later ones at once."""
        with self._lock:
            self.closed = True
            callbacks = self._everyone()
        _call(callbacks)

    def _everyone(self) -> list[Callback]:
        callbacks = [callback for waiting in self._waiting.values() for callback, _ in waiting]
        self._waiting.clear()
        return callbacks

    def _pop(self, queue: str, change: Change) -> list[Callback]:
        """Remove the waiters that the change is for."""
        waiting = self._waiting.pop(queue, [])
        left = [one for one in waiting if not one[1] & change]
        if left:
            self._waiting[queue] = left
        return [callback for callback, wanted in waiting if wanted & change]


def _call(callbacks: Iterable[Callback]) -> None:
    for callback in callbacks:
        callback()

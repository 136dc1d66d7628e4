"""For blocking callers. Generated from `_async/poller.py` by `tools/unasync.py`: do not edit."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from turnabout.store import Store
from turnabout.words.limits import IDS_MAX
from turnabout.words.records import Ending
from turnabout.words.verbs import Endings

if TYPE_CHECKING:
    from threading import Event

GAP_SECONDS_EACH, GAP_SECONDS_MAX = 0.0005, 0.02
"""Between two polls, for each waiter."""


@dataclass(slots=True)
class Poll:
    """One query: its ids, the poll before it, and what it found."""

    before: Poll | None
    over: Event
    ids: set[int] = field(default_factory=set[int])
    found: dict[int, Ending] | None = None
    error: Exception | None = None


class EndingPoller:
    """Asks how messages of one queue have ended."""

    def __init__(self, store: Store, queue: str) -> None:
        self._store = store
        self._queue = queue
        self._lock = threading.Lock()  # never held while anything is awaited
        self._next: Poll | None = None
        self._last: Poll | None = None
        self._waiters = 0
        self._looked_at = 0.0

    @contextmanager
    def waiting(self) -> Generator[None]:
        """For as long as somebody waits."""
        with self._lock:
            self._waiters += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiters -= 1

    def look(self, ids: Iterable[int]) -> dict[int, Ending]:
        """The endings of those that have ended, as they are at a time after the call."""
        wanted = tuple(ids)
        while True:
            mine, leads = self._join(wanted)
            if leads:
                self._lead(mine)
            else:
                mine.over.wait()
            if mine.error is not None:
                raise mine.error
            if mine.found is not None:
                found = mine.found
                return {one: found[one] for one in wanted if one in found}
            # Its leader was cancelled on the way: once more.

    def _join(self, ids: tuple[int, ...]) -> tuple[Poll, bool]:
        """The poll that has not begun yet, and whether we are the one to begin it."""
        from threading import Event

        with self._lock:
            leads = self._next is None
            if self._next is None:
                self._next = Poll(self._last, Event())
                self._last = self._next
            self._next.ids.update(ids)
            return self._next, leads

    def _lead(self, mine: Poll) -> None:
        from time import sleep

        try:
            if mine.before is not None:
                mine.before.over.wait()
                mine.before = None
            gap = min(self._waiters * GAP_SECONDS_EACH, GAP_SECONDS_MAX)
            if (pause := self._looked_at + gap - time.monotonic()) > 0:
                sleep(pause)
            with self._lock:
                self._looked_at = time.monotonic()
                self._next = None
                ids = sorted(mine.ids)
            mine.found = self._ask(ids)
        except Exception as error:  # noqa: BLE001 - raised again, by everybody in the poll
            mine.error = error
        finally:
            with self._lock:
                if self._next is mine:
                    self._next = None
            mine.over.set()

    def _ask(self, ids: list[int]) -> dict[int, Ending]:
        found: dict[int, Ending] = {}
        for i in range(0, len(ids), IDS_MAX):
            answer = self._store.run(Endings(self._queue, tuple(ids[i : i + IDS_MAX])))
            found.update({one.id: one for one in answer if one is not None})
        return found

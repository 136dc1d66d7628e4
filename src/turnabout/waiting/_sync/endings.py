"""For blocking callers. Generated from `_async/endings.py` by `tools/unasync.py`: do not edit."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass

from turnabout.store import Store
from turnabout.waiting.line import Waiter, WaitingLine
from turnabout.words.limits import IDS_MAX
from turnabout.words.records import Ending
from turnabout.words.verbs import Endings

GAP_SECONDS_EACH, GAP_SECONDS_MAX = 0.0005, 0.02
"""Time between two queries: for each waiter, and at most."""


@dataclass(slots=True, eq=False)
class WaitingLook(Waiter):
    """One that wants to know of these messages, and what was found."""

    ids: tuple[int, ...]
    found: dict[int, Ending] | None = None
    error: Exception | None = None


class EndingPoller:
    """Asks how messages of one queue have ended."""

    def __init__(self, store: Store, queue: str) -> None:
        self._store = store
        self._queue = queue
        self._line = WaitingLine[WaitingLook]()
        self._lock = threading.Lock()
        self._waiting = 0
        self._looked_at = 0.0

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Count a waiter, between its looks, too."""
        with self._lock:
            self._waiting += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1

    def look(self, ids: Iterable[int]) -> dict[int, Ending]:
        """The endings of those that have ended, as they are at a time after the call."""
        from threading import Event

        mine = WaitingLook(Event(), tuple(ids))
        self._line.join(mine)
        try:
            while mine.found is None and mine.error is None:
                if self._line.leads(mine):
                    self._look_for_all()
                else:
                    mine.called.wait()
        finally:
            self._line.leave(mine)
        if mine.error is not None:
            raise mine.error
        return mine.found or {}

    def _look_for_all(self) -> None:
        from time import sleep

        gap = min(self._waiting * GAP_SECONDS_EACH, GAP_SECONDS_MAX)
        if (pause := self._looked_at + gap - time.monotonic()) > 0:
            sleep(pause)
        self._looked_at = time.monotonic()
        looks = self._line.waiters()
        found: dict[int, Ending] = {}
        failed: Exception | None = None
        try:
            found = self._ask(sorted({one for look in looks for one in look.ids}))
        except Exception as error:  # noqa: BLE001 - raised again, by each of them
            failed = error
        asked_for = set(looks)

        def give(look: WaitingLook) -> bool:
            if look not in asked_for:
                return False
            look.error = failed
            look.found = {one: found[one] for one in look.ids if one in found}
            return True

        self._line.answer(give)

    def _ask(self, ids: list[int]) -> dict[int, Ending]:
        found: dict[int, Ending] = {}
        for i in range(0, len(ids), IDS_MAX):
            answer = self._store.run(Endings(self._queue, tuple(ids[i : i + IDS_MAX])))
            found.update({one.id: one for one in answer if one is not None})
        return found

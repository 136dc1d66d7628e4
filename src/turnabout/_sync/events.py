"""For blocking callers. Generated from `_async/events.py` by `tools/unasync.py`: do not edit."""

from __future__ import annotations

import time
from collections.abc import Iterator

from turnabout._sync.shared import Shared
from turnabout.waiting.pacing import Patience
from turnabout.words.errors import UsageError
from turnabout.words.policy import EventLevel
from turnabout.words.records import Event
from turnabout.words.verbs import Events, QueueGet

PAGE = 100
HINT_SECONDS_MAX = 1.0
"""Not all that happens gives a hint: a lease, for one, makes nobody else look."""
SETTLED_SECONDS = 5.0
"""Maximum age of the cached queue setting: it may change while we listen."""


class EventReader:
    """Reads the events of a queue, from a given one on."""

    def __init__(self, shared: Shared, queue: str, after: str | None) -> None:
        self._shared = shared
        self._store = shared.store
        self._queue = queue
        self._cursor = after
        self._level: EventLevel = "off"
        self._level_until = 0.0

    def events(self, idle_seconds: float | None) -> Iterator[Event]:
        """Yield events until none came for `idle_seconds`, or the connection is closed."""
        if self._level_now() == "off":
            raise UsageError(
                f"the queue {self._queue!r} has no events: call `queue.update(events='all')` "
                f"(`turnabout queue update {self._queue} --events all`) for one of each thing that "
                "happens, or 'hints' to be told that something has changed"
            )
        if self._cursor is None:
            self._cursor = (self._store.run(Events(self._queue))).cursor
        patience = Patience(time.monotonic(), idle_seconds, hint_seconds_max=HINT_SECONDS_MAX)
        seen = self._store.signal(self._queue)
        while not self._shared.is_closed:
            patience.looked(time.monotonic())
            now_seen = self._store.signal(self._queue)
            page = self._store.run(Events(self._queue, self._cursor, PAGE))
            events = page.events or self._hint(page.cursor, has_changed=now_seen != seen)
            for event in events:
                yield event
            self._cursor, seen = page.cursor, now_seen
            now = time.monotonic()
            if events:
                patience.start_again(now)
            if len(page.events) < PAGE:
                if patience.is_over(now):
                    return
                self._pause(patience, seen)

    def _hint(self, cursor: str, *, has_changed: bool) -> tuple[Event, ...]:
        """Nothing was written: in the mode `hints`, a change of the queue is an event by itself."""
        if not has_changed or self._level_now() != "hints":
            return ()
        return (Event("changed", self._queue, round(time.time() * 1000), cursor=cursor),)

    def _pause(self, patience: Patience, seen: int) -> None:
        from time import sleep

        self._store.wait(self._queue, seen, patience.for_hint(time.monotonic()))
        rest = patience.before_look(time.monotonic())
        if rest:
            sleep(rest)

    def _level_now(self) -> EventLevel:
        now = time.monotonic()
        if now >= self._level_until:
            entry = self._store.run(QueueGet(self._queue))
            self._level, self._level_until = entry.settings.events, now + SETTLED_SECONDS
        return self._level

"""A notifier that knows which of its waiters the database has a row of.

Such a row (the table `waiter`) is for others: they notify this process, and remove the row with
that. It is written before the last look of somebody who then waits, and is good for a while; as
long as it is waited there, it is renewed.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from turnabout.waiting.notifier import Notifier
from turnabout.words.verb import Change

Place = tuple[str, Change]

VALID_SECONDS = 10.0
RENEW_SECONDS = VALID_SECONDS / 2


class ListeningNotifier(Notifier):
    """See the module. Of one store in one process, whose name for others is `process`."""

    def __init__(self) -> None:
        super().__init__()
        self.process = secrets.token_hex(8)
        self._renew_at = 0.0
        self._written: set[Place] = set()
        self._wanted: set[Place] = set()
        self._taken: set[Place] = set()

    @property
    def listens_on(self) -> str:
        """The channel for LISTEN."""
        return f"turnabout_{self.process}"

    def notified(self, queue: str, change: Change) -> bool:
        """Another process says so, and has removed our row. False: nobody here receives there now,
        so it is for somebody else.
        """
        is_waited_for = change != Change.READY or self.is_waited_for(queue, change)
        for place in ((queue, change), (queue, Change.ANY)):
            self._taken.add(place)
            self._written.discard(place)
        self.notify(queue, change=change)
        return is_waited_for

    def want(self, place: Place) -> bool:
        """A row is needed there. False: it is written."""
        if place in self._written:
            return False
        self._wanted.add(place)
        return True

    def to_write(self) -> list[Place]:
        """The rows that are needed. Only one caller at a time writes some."""
        self._taken.clear()
        wanted, self._wanted = self._wanted, set()
        return sorted(wanted)

    def to_renew(self, now: float) -> list[Place]:
        """The rows that are to be written again, from time to time: all that are of use."""
        if now < self._renew_at:
            return []
        self._renew_at = now + RENEW_SECONDS
        places = self.waited_for()
        self._written.intersection_update(places)
        self._taken.clear()
        return places

    def parameters(self, places: Sequence[Place], *, sweep: bool = False) -> Sequence[Any]:
        """Parameters of `ADD_WAITERS`."""
        return (
            self.process,
            [queue for queue, _ in places],
            [int(change) for _, change in places],
            round(VALID_SECONDS * 1000),
            sweep,
        )

    def were_written(self, places: Sequence[Place]) -> None:
        """Note rows that are in the database, unless another process removed them already."""
        self._written.update(set(places) - self._taken)

    def lost(self) -> None:
        """The rows may be gone, or notifications were missed: all look for themselves."""
        self._written.clear()
        self.notify_all()

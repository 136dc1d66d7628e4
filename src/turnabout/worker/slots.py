"""The limit on messages that a worker holds at once, over all of its queues."""

from __future__ import annotations

import sys
from collections.abc import Callable


class Slots:
    """A slot for each message, from before it is asked for until the database knows its end."""

    def __init__(self, most: int | None) -> None:
        """Free slots; None: not limited."""
        self._free = sys.maxsize if most is None else most
        self._refused: list[Callable[[], object]] = []

    def take(self, wanted: int, wake: Callable[[], object]) -> int:
        """Take as many of `wanted` as are free; if none is, `wake` is called once one may be."""
        found = min(wanted, self._free)
        if wanted and not found:
            self._refused.append(wake)
        self._free -= found
        return found

    def put(self, count: int) -> None:
        """Give slots back."""
        self._free += count
        if count and self._refused:
            refused, self._refused = self._refused, []
            for wake in refused:
                wake()

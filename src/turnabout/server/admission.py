"""How many requests there are, and how many of them wait for something to happen."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from turnabout.server.options import ServerOptions
from turnabout.words.errors import Busy


class Admission:
    """Counts requests (the request guard does) and waiters.

    A request that waits counts as waiting, and not as one that wants the store.
    """

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        self.requests = 0
        self.waiting = 0
        self.body_bytes = 0
        """Of large bodies, which are in memory until their requests end."""

    @property
    def pending(self) -> int:
        """Requests that want the store, or have it."""
        return self.requests - self.waiting

    @property
    def is_full(self) -> bool:
        """Nobody else may come in now."""
        return self.pending >= self.options.max_pending

    @contextmanager
    def waiter(self) -> Generator[None]:
        """A block in which a request waits: `with context.admission.waiter(): …`.

        Raises: Busy when `max_polls` wait already.
        """
        if self.waiting >= self.options.max_polls:
            raise Busy(
                f"{self.waiting:,} requests wait already, and no more may (max_polls): "
                "repeat later, or without wait_seconds"
            )
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

"""A line: callers that wait for the same thing, in the order of asking. The first one leads.

The leader looks for all, and answers them; when it leaves, answered or cancelled, the next one
leads. So a line is never without a leader, and ten thousand waiters cost as much as one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar


@dataclass(slots=True, eq=False)
class Waiter:
    """A caller in the line; subclasses have room for their answers."""

    called: Any  # an Event of `threading` or of `asyncio`
    """Set when it is answered, or leads."""


W = TypeVar("W", bound=Waiter)


class WaitingLine(Generic[W]):
    """Any thread may call; nothing is awaited while the lock is held."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: dict[W, None] = {}
        self._leader: W | None = None

    def __len__(self) -> int:
        return len(self._waiters)

    def join(self, waiter: W, *, in_front: bool = False) -> bool:
        """True: it leads."""
        with self._lock:
            if in_front:
                self._waiters = {waiter: None, **self._waiters}
            else:
                self._waiters[waiter] = None
            if self._leader is None:
                self._leader = waiter
            return self._leader is waiter

    def leads(self, waiter: W) -> bool:
        """Whether it is the one to look."""
        return self._leader is waiter

    def waiters(self) -> list[W]:
        """The waiters without an answer, in order."""
        with self._lock:
            return list(self._waiters)

    def answer(self, give: Callable[[W], bool]) -> None:
        """Give each its answer in its turn, until `give` has none for one. Nobody leaves meanwhile:
        who has left is given nothing, and who was given something finds it when it leaves.
        """
        with self._lock:
            while self._waiters and give(waiter := next(iter(self._waiters))):
                del self._waiters[waiter]
                waiter.called.set()

    def leave(self, waiter: W) -> None:
        """Remove a waiter. If it led, the next one leads."""
        with self._lock:
            self._waiters.pop(waiter, None)
            if self._leader is waiter:
                self._leader = next(iter(self._waiters), None)
                if self._leader is not None:
                    self._leader.called.set()

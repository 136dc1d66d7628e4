"""What a verb is on PostgreSQL: one call of one function. `calls` has them all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnabout.postgres.revision import rendered

Row = Sequence[Any]
Rows = Sequence[Row]
Now = int | None


@dataclass(frozen=True, slots=True)
class Call:
    """One function call. `repeatable`: it changes nothing that a second run would spoil."""

    text: str
    parameters: Callable[[Any, Now], Sequence[Any]]
    answer: Callable[[Any, Rows], Any]
    repeatable: bool = False
    nowait: bytes | None = None
    """The call to make instead when this one met rows that others hold for long, and in a
    transaction that goes on afterwards.
    """
    without_timers: bytes | None = None
    """The call to make instead when the same was made for that queue in this millisecond."""
    notifies: Callable[[Any, Rows], Sequence[str]] | None = None
    """The queues that it changed in any way, so that those who wait must be notified; None: as the
    verb says.
    """
    in_parts: bool = False
    """It is called again until it answers 0, so that no transaction grows with the queue."""
    sql: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", rendered(self.text))
        object.__setattr__(self, "sql", self.text.encode())
        if self.nowait is not None:
            object.__setattr__(self, "nowait", rendered(self.nowait.decode()).encode())
        if self.without_timers is not None:
            object.__setattr__(
                self, "without_timers", rendered(self.without_timers.decode()).encode()
            )


class TimerThrottle:
    """When a store last ran the timers of each queue: once in a millisecond will do.

    Looking at them is a good part of a small receive, and many receives fit into a millisecond.
    """

    __slots__ = ("_at",)

    def __init__(self) -> None:
        self._at: dict[str, int] = {}

    def statement(self, call: Call, verb: Any, now: Now) -> bytes:
        """The statement for this call of the verb."""
        if call.without_timers is None:
            return call.sql
        at = time.monotonic_ns() // 1_000_000 if now is None else now
        if self._at.get(verb.queue) == at:
            return call.without_timers
        if len(self._at) >= _QUEUES_MAX:
            self._at.clear()
        self._at[verb.queue] = at
        return call.sql


_QUEUES_MAX = 1_000


def first(row: Row) -> Any:
    """What rows are put into order by, where their first column is a place in the verb's list."""
    return row[0]

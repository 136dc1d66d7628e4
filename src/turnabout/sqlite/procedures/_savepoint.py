"""A savepoint around a part of a verb that the verb may undo."""

from __future__ import annotations

from turnabout.sqlite._connection import Connection, StartOver
from turnabout.sqlite._statements import statements

_SQL = statements("savepoint")


class Savepoint:
    """The work from its making on, up to `keep` or `undo`.

    Optimistically, no savepoint is made, and to undo is to start over: that is dearer, so a part
    that is `often` undone makes one all the same.
    """

    __slots__ = ("_before", "_connection", "_is_marked")

    def __init__(self, connection: Connection, *, often: bool = False) -> None:
        self._connection = connection
        self._is_marked = often or not connection.optimistic
        self._before = connection.total_changes
        if self._is_marked:
            connection.execute(_SQL["begin"])

    def keep(self) -> None:
        """Keep the changes."""
        if self._is_marked:
            self._connection.execute(_SQL["end"])

    def undo(self) -> None:
        """Undo the changes. Raises: StartOver."""
        if self._is_marked:
            self._connection.execute(_SQL["undo"])
            self._connection.execute(_SQL["end"])
        elif self._connection.total_changes > self._before:
            raise StartOver

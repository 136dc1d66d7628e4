"""Move queues from an SQLite file to PostgreSQL, with all that is in them.

    from turnabout.move import move
    moved = move("sqlite:///app.db", "postgresql://app@localhost/app")

What moves, and what users of the file notice: docs/how-to/move.md. Needs the psycopg package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnabout.move._move import abort, move, plan
    from turnabout.move._report import Left, Moved, MovedQueue, Progress

__all__ = ["Left", "Moved", "MovedQueue", "Progress", "abort", "move", "plan"]


def __getattr__(name: str) -> Any:
    """Each is loaded when it is used: asking which slices there are loads none of them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room = "_report" if name[0].isupper() else "_move"
    return getattr(import_module(f"{__name__}.{room}"), name)

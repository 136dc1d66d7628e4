"""Schedules at a door that many tests share: whoever fires what is due, fires those of all."""

import contextlib
from collections.abc import Generator
from typing import Any


@contextlib.contextmanager
def swept(ps: Any) -> Generator[Any]:
    """The schedules behind that connection: none at first, and none is left behind."""
    _sweep(ps.schedules)
    try:
        yield ps.schedules
    finally:
        _sweep(ps.schedules)


def _sweep(schedules: Any) -> None:
    for entry in schedules.list():
        schedules.delete(entry.schedule.name)

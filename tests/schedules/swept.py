"""Schedules at a door that many tests share: whoever fires what is due, fires those of all."""

import contextlib
from collections.abc import Generator
from typing import Any


@contextlib.contextmanager
def swept(mq: Any) -> Generator[Any]:
    """The schedules behind that connection: none at first, and none is left behind."""
    _sweep(mq.schedules)
    try:
        yield mq.schedules
    finally:
        _sweep(mq.schedules)


def _sweep(schedules: Any) -> None:
    for entry in schedules.list():
        schedules.delete(entry.schedule.name)

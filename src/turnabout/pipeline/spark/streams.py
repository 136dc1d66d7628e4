"""The common part of both modes' streams.

Spark makes two of each reader: one lives in the driver's reader process and is asked for offsets
and partitions; another is pickled, and reads on executors.
"""

from __future__ import annotations

from collections.abc import Sequence
from logging import getLogger
from typing import Any, Final, Generic, TypeVar

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamReader

from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.spark.versions import SupportsTriggerAvailableNow
from turnabout.words.errors import UsageError

IDLE_SECONDS: Final = 0.2
"""Pause before an empty database is asked again: Spark itself asks a hundred times a second."""

_log = getLogger(__name__)

S = TypeVar("S")
D = TypeVar("D")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow, Generic[S, D]):
    """A reader with settings, and with what the one in the driver knows beyond them."""

    new_driver: Any
    """Makes what the driver's reader knows at the start; it is never pickled."""

    def __init__(self, access: Access, settings: S, columns: Sequence[str]) -> None:
        self._access = access
        self._settings = settings
        self._columns = tuple(columns)
        self._driver: D = self.new_driver()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_driver"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._driver = self.new_driver()


def fail_or_warn(text: str, else_: str, *, fails: bool) -> None:
    """Raise a UsageError; or only warn, as the stream's options say. `else_`: what they can say."""
    if fails:
        raise UsageError(f"{text}; {else_}")
    _log.warning("%s", text)


def in_task() -> bool:
    """Whether this is one of Spark's worker processes, which reads for one task after another."""
    return TaskContext.get() is not None

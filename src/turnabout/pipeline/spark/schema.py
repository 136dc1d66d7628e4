"""The columns that Spark sees, in Arrow's types and in Spark's. Nothing of Spark is imported.

The types have to be Spark's to the letter (`timestamp[us, UTC]`, `string` and no `large_string`):
batches of any other crash in the JVM. A test compares them with what Spark makes of the DDL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

from turnabout.words.errors import UsageError

_arrow: Any = pa

Column = tuple[Any, str]
"""A type of Arrow's, and the same in Spark's DDL."""

STRING: Final[Column] = (_arrow.string(), "string")
BINARY: Final[Column] = (_arrow.binary(), "binary")
LONG: Final[Column] = (_arrow.int64(), "bigint")
INT: Final[Column] = (_arrow.int32(), "int")
DOUBLE: Final[Column] = (_arrow.float64(), "double")
TIMESTAMP: Final[Column] = (_arrow.timestamp("us", tz="UTC"), "timestamp")
HEADERS: Final[Column] = (_arrow.map_(_arrow.string(), _arrow.string()), "map<string,string>")

LEASE: Final[Mapping[str, Column]] = {
    "namespace": STRING,
    "queue": STRING,
    "channel": STRING,
    "message_id": LONG,
    "value": BINARY,
    "content_type": STRING,
    "headers": HEADERS,
    "priority": INT,
    "attempt": INT,
    "failures": INT,
    "crashes": INT,
    "sent_at": TIMESTAMP,
    "leased_at": TIMESTAMP,
    "lease_until": TIMESTAMP,
    "state": BINARY,
    "epoch": LONG,
}
"""Messages that are leased for a stream."""

LOG: Final[Mapping[str, Column]] = {
    "namespace": STRING,
    "queue": STRING,
    "channel": STRING,
    "message_id": LONG,
    "outcome": STRING,
    "attempt": INT,
    "failures": INT,
    "crashes": INT,
    "sent_at": TIMESTAMP,
    "leased_at": TIMESTAMP,
    "finished_at": TIMESTAMP,
    "error": STRING,
    "result": BINARY,
    "result_type": STRING,
    "value": BINARY,
    "content_type": STRING,
    "headers": HEADERS,
}
"""The columns of mode `log` and mode `history`."""

DEAD: Final[Mapping[str, Column]] = {
    "namespace": STRING,
    "queue": STRING,
    "channel": STRING,
    "message_id": LONG,
    "source_queue": STRING,
    "reason": STRING,
    "died_at": TIMESTAMP,
    "failures": INT,
    "crashes": INT,
    "redrives": INT,
    "first_error": STRING,
    "last_error": STRING,
    "sent_at": TIMESTAMP,
    "value": BINARY,
    "content_type": STRING,
    "headers": HEADERS,
}
"""Messages in dead-letter queues."""

SINK: Final[Mapping[str, Column]] = {
    "value": BINARY,
    "queue": STRING,
    "channel": STRING,
    "content_type": STRING,
    "headers": HEADERS,
    "priority": INT,
    "delay_seconds": DOUBLE,
    "ttl_seconds": DOUBLE,
    "dedup_key": STRING,
}
"""The columns that the sink takes; only `value` is needed, and it may be a string instead."""

BY_MODE: Final[Mapping[str, Mapping[str, Column]]] = {
    "lease": LEASE,
    "log": LOG,
    "history": LOG,
    "dead": DEAD,
}


def column_names(mode: str, *, headers: bool = False, payload: bool = True) -> tuple[str, ...]:
    """The columns of a mode unless a schema asks for others."""
    left_out = {*(() if headers else ("headers",)), *(() if payload else ("value",))}
    return tuple(name for name in BY_MODE[mode] if name not in left_out)


def arrow_schema(names: Iterable[str], columns: Mapping[str, Column] = LOG) -> Any:
    """A pyarrow.Schema of these columns, in this order."""
    return _arrow.schema([_arrow.field(name, columns[name][0]) for name in names])


def ddl(names: Iterable[str], columns: Mapping[str, Column] = LOG) -> str:
    """The same for Spark, as text."""
    return ", ".join(f"{name} {columns[name][1]}" for name in names)


def check_asked(asked: Mapping[str, str], mode: str) -> tuple[str, ...]:
    """The columns of a schema that a user gave: names with types in Spark's DDL.

    Raises: UsageError for a column that the mode has not, or of another type.
    """
    columns = BY_MODE[mode]
    for name, kind in asked.items():
        if name not in columns:
            raise UsageError(f"mode={mode} has no column {name!r}; it has {', '.join(columns)}")
        if kind != columns[name][1]:
            raise UsageError(f"the column {name} is of type {columns[name][1]}, not {kind}")
    return tuple(asked)

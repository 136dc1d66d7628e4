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
_BY_DDL = {one[1]: one for one in (STRING, BINARY, LONG, INT, DOUBLE, TIMESTAMP, HEADERS)}


def _columns(text: str) -> Mapping[str, Column]:
    """Columns by name, of their DDL."""
    pairs = (column.split() for column in text.split(", "))
    return {name: _BY_DDL[kind] for name, kind in pairs}


LEASE: Final = _columns(
    "namespace string, queue string, channel string, message_id bigint, value binary, "
    "content_type string, headers map<string,string>, priority int, attempt int, failures int, "
    "crashes int, sent_at timestamp, leased_at timestamp, lease_until timestamp, state binary, "
    "epoch bigint"
)
"""Messages that are leased for a stream."""

LOG: Final = _columns(
    "namespace string, queue string, channel string, message_id bigint, outcome string, "
    "attempt int, failures int, crashes int, sent_at timestamp, leased_at timestamp, "
    "finished_at timestamp, error string, result binary, result_type string, value binary, "
    "content_type string, headers map<string,string>"
)
"""The columns of mode `log` and mode `history`."""

DEAD: Final = _columns(
    "namespace string, queue string, channel string, message_id bigint, source_queue string, "
    "reason string, died_at timestamp, failures int, crashes int, redrives int, "
    "first_error string, last_error string, sent_at timestamp, value binary, "
    "content_type string, headers map<string,string>"
)
"""Messages in dead-letter queues."""

SINK: Final = _columns(
    "value binary, queue string, channel string, content_type string, "
    "headers map<string,string>, priority int, delay_seconds double, ttl_seconds double, "
    "dedup_key string"
)
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


def checked_columns(types: Mapping[str, str], mode: str) -> tuple[str, ...]:
    """The columns of a schema that a user gave: names with types in Spark's DDL.

    Raises: UsageError for a column that the mode has not, or of another type.
    """
    columns = BY_MODE[mode]
    for name, kind in types.items():
        if name not in columns:
            raise UsageError(f"mode={mode} has no column {name!r}; it has {', '.join(columns)}")
        if kind != columns[name][1]:
            raise UsageError(f"the column {name} is of type {columns[name][1]}, not {kind}")
    return tuple(types)

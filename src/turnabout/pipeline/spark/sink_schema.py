"""The columns that a DataFrame may have to be sent, checked before any task runs."""

from __future__ import annotations

import difflib
import re
from typing import Final

from pyspark.sql.types import StructType

from turnabout.pipeline.schema import SINK
from turnabout.words.errors import UsageError

_TEXT: Final = r"string( collate \w+)?|(var)?char\(\d+\)"
_WHOLE: Final = "tinyint|smallint|int|bigint"
_TYPES: Final = {
    "value": f"binary|{_TEXT}",
    "headers": f"map<string,string>|{_TEXT}",
    "priority": _WHOLE,
    "delay_seconds": rf"{_WHOLE}|float|double|decimal\(.*\)",
    "ttl_seconds": rf"{_WHOLE}|float|double|decimal\(.*\)",
}
_MEANT: Final = {
    "topic": "queue",
    "key": "channel",
    "group": "channel",
    "payload": "value",
    "body": "value",
    "message": "value",
    "data": "value",
    "delay": "delay_seconds",
    "ttl": "ttl_seconds",
}
"""Its names elsewhere."""


def check_schema(schema: StructType, *, has_queue: bool) -> None:
    """Raises: UsageError for columns that no message has, for types, for what is missing."""
    names = [name.lower() for name in schema.names]  # as Spark has them
    for name in schema.names:
        if name.lower() not in SINK:
            raise UsageError(f"a message has no column {name!r}: {_hint(name)}")
    twice = [name for name in SINK if names.count(name) > 1]
    if twice:
        raise UsageError(f"the column {twice[0]} is there {names.count(twice[0])} times")
    if "value" not in names:
        raise UsageError("a message needs the column value, a string or binary: its payload")
    if not has_queue and "queue" not in names:
        raise UsageError('which queue? Give .option("queue", …), or add the column queue')
    for name, column in zip(names, schema.fields, strict=True):
        kind = column.dataType.simpleString()
        if kind == "void" and name != "value":
            continue
        if not re.fullmatch(_TYPES.get(name, _TEXT), kind):
            raise UsageError(f"the column {column.name} is {_wanted(name)}, not {kind}")


def _hint(name: str) -> str:
    if name.lower() in _MEANT:
        return f"did you mean {_MEANT[name.lower()]}?"
    near = difflib.get_close_matches(name.lower(), SINK, n=1)
    if near:
        return f"did you mean {near[0]}?"
    return f"select from {', '.join(SINK)}, or leave it out"


def _wanted(name: str) -> str:
    if name == "value":
        return "a string or binary (for rows as JSON: to_json(struct(…)) as value)"
    if name == "headers":
        return "a map<string,string>, or JSON text"
    return f"of type {SINK[name][1]}"

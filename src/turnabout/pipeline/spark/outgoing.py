"""Rows of a DataFrame as messages, checked as a send checks them. No Spark here.

What a valid message is, is said by `limits` alone. A column is looked at by its different values:
a million rows have few channels, and one content type.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

import pyarrow as pa

from turnabout.pipeline.staged import StagedMessages
from turnabout.words import limits
from turnabout.words.entities import Outgoing
from turnabout.words.errors import UsageError
from turnabout.words.payload import BYTES, TEXT

_arrow: Any = pa  # it has no types

INVALID_REASON = "invalid-reason"
INVALID_QUEUE = "invalid-queue"
INVALID_BYTES = "invalid-bytes"
"""Headers of a row that went to a dead-letter queue: why, the queue it was for, and, if its payload
was cut to fit, how many bytes it had."""


class Row(NamedTuple):
    """The cells of a row that a dead letter is made of, as they came."""

    value: Any
    content_type: Any
    channel: Any
    headers: Any
    queue: Any


class Invalid(NamedTuple):
    """A row that cannot be a message. `at` counts from 1 in its partition."""

    at: int
    row: Row
    reason: str


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """The rows of a batch by columns, as `StagedMessages` has them, each with its queue."""

    queues: list[str]
    payloads: list[bytes]
    content_type: str
    columns: Mapping[str, list[Any]]
    invalid: list[Invalid]
    """The other rows of the batch, which can't be messages; the columns leave them out."""


def checked(
    batch: Any,
    stored: Callable[[Any], str],
    max_bytes: int = limits.PAYLOAD_BYTES_MAX,
    first: int = 1,
) -> CheckedRows:
    """Check the rows, of which the first has the number `first`.

    `stored` gives the queue's name in the database, from a row's (None: it has none), or raises
    UsageError; it is asked once for each name.
    """
    batch = batch.rename_columns([name.lower() for name in batch.schema.names])
    value = batch.column("value")
    is_text = _arrow.types.is_string(value.type) or _arrow.types.is_large_string(value.type)
    cells = {name: _cells(batch.column(name)) for name in batch.schema.names if name != "value"}
    cells["value"] = _bytes_of(value) if is_text else _cells(value)
    payloads = _payloads(cells["value"], max_bytes)
    queues = _each(cells.get("queue") or [None] * batch.num_rows, stored)
    columns = {
        field: _each(cells[name], lambda cell, check=check: None if cell is None else check(cell))
        for name, (field, check) in _COLUMNS.items()
        if name in cells
    }
    wrong: dict[int, str] = {}
    for column in (payloads, *columns.values(), queues):
        for number, cell in enumerate(column) if UsageError in set(map(type, column)) else ():
            if isinstance(cell, UsageError):
                wrong.setdefault(number, str(cell))
    invalid: list[Invalid] = []
    if wrong:
        for number, reason in sorted(wrong.items()):
            row = Row(*(cells[name][number] if name in cells else None for name in Row._fields))
            invalid.append(Invalid(first + number, row, reason))
        queues, payloads = _without(queues, wrong), _without(payloads, wrong)
        columns = {name: _without(column, wrong) for name, column in columns.items()}
    columns = {n: c for n, c in columns.items() if any(cell not in (None, "") for cell in c)}
    return CheckedRows(queues, payloads, TEXT if is_text else BYTES, columns, invalid)


def dead_letter(invalid: Invalid, queue: str, target: str, max_bytes: int) -> StagedMessages:
    """The message for an invalid row in `target`, the queue's dead-letter queue: its payload,
    channel, content type and headers, as far as they are valid, and the reason.
    """
    row = invalid.row
    own_headers = {INVALID_REASON: _plain(invalid.reason), INVALID_QUEUE: queue}
    payload = _any_bytes(row.value)
    if len(payload) > max_bytes:
        own_headers[INVALID_BYTES] = str(len(payload))
        payload = payload[:max_bytes]
    try:
        # Both together must fit; if they do not, the reason matters more.
        headers = limits.headers(_headers(row.headers or {}) | own_headers)
    except UsageError:
        headers = own_headers
    kind = row.content_type if _is_valid(limits.content_type, row.content_type) else BYTES
    channel = row.channel if _is_valid(limits.channel_name, row.channel) else ""
    return StagedMessages.of(target, [Outgoing(payload, kind, channel, headers=headers)])


def _cells(column: Any) -> Sequence[Any]:
    """Python values of a column. Text may hold anything once somebody has cast bytes to it: what is
    no UTF-8 becomes lone surrogates, which `limits` refuses, instead of failing the whole column.
    """
    if _arrow.types.is_decimal(column.type):
        column = column.cast(_arrow.float64())
    try:
        return column.to_pylist()
    except UnicodeDecodeError:
        return [_cell(cell) for cell in column]


def _cell(cell: Any) -> Any:
    try:
        return cell.as_py()
    except UnicodeDecodeError:
        if isinstance(cell, _arrow.MapScalar):
            return [(_cell(pair["key"]), _cell(pair["value"])) for pair in cell.values]
        return bytes(cell.as_buffer()).decode(errors="surrogateescape")


def _bytes_of(column: Any) -> Sequence[Any]:
    """The UTF-8 of text, each value that is none as a str that `_payload` refuses."""
    binary = _arrow.large_binary() if _arrow.types.is_large_string(column.type) else _arrow.binary()
    cells = column.cast(binary).to_pylist()
    try:
        column.validate(full=True)
    except _arrow.ArrowInvalid:
        return [_text_or_bytes(cell) for cell in cells]
    return cells


def _text_or_bytes(cell: bytes | None) -> Any:
    if cell is None:
        return None
    try:
        cell.decode()
    except UnicodeDecodeError:
        return cell.decode(errors="surrogateescape")
    return cell


def _each(cells: Sequence[Any], check: Callable[[Any], Any]) -> list[Any]:
    """The answer of a check for each cell, or its UsageError; asked once for equal cells."""
    try:
        answers = {cell: _outcome(check, cell) for cell in dict.fromkeys(cells)}
    except TypeError:  # maps come as lists
        return [_outcome(check, cell) for cell in cells]
    return [answers[cell] for cell in cells]


def _outcome(check: Callable[[Any], Any], cell: Any) -> Any:
    try:
        return check(cell)
    except UsageError as error:
        return error


def _without(column: list[Any], wrong: Mapping[int, object]) -> list[Any]:
    return [cell for number, cell in enumerate(column) if number not in wrong]


def _payloads(values: Sequence[Any], max_bytes: int) -> list[Any]:
    if set(map(type, values)) == {bytes} and max(map(len, values)) <= max_bytes:
        return list(values)
    return [_payload(value, max_bytes) for value in values]


def _payload(value: Any, max_bytes: int) -> bytes | UsageError:
    if value is None:
        return UsageError("the value is null: a message needs a payload, even if an empty one")
    if isinstance(value, str):
        return UsageError("the value is not UTF-8: leave it as binary, or fix it")
    return _outcome(lambda cell: limits.payload(cell, max_bytes), value)


def _headers(headers: Any) -> dict[str, str]:
    """Read headers from a map, which Arrow gives as pairs, or from JSON text."""
    if isinstance(headers, str):
        limits.utf8(headers, "headers")
        try:
            headers = json.loads(headers)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"the headers are not JSON: {error}") from None
        if not isinstance(headers, dict):
            raise UsageError("the headers are JSON, but not an object of names and texts")
    return limits.headers(dict(cast("dict[str, str]", headers)))


def _headers_json(cell: Any) -> str | None:
    headers = _headers(cell)
    return json.dumps(headers) if headers else None


def _priority(cell: Any) -> int:
    return limits.whole(cell, "priority", limits.PRIORITY_MIN, limits.PRIORITY_MAX)


_COLUMNS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "content_type": ("content_type", limits.content_type),
    "channel": ("channel", limits.channel_name),
    "priority": ("priority", _priority),
    "delay_seconds": ("delay_ms", limits.delay_ms),
    "headers": ("headers", _headers_json),
    "ttl_seconds": ("ttl_ms", limits.ttl_ms),
    "dedup_key": ("dedup_key", limits.dedup_key),
}
"""A row's columns: the field of a message that each becomes, and its check."""


def _any_bytes(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode(errors="surrogateescape")
    return value if isinstance(value, bytes) else b""


def _plain(text: str) -> str:
    return text.replace("\x00", "\\x00").encode(errors="backslashreplace").decode()


def _is_valid(check: Callable[[object], Any], value: object) -> bool:
    try:
        check(value)
    except UsageError:
        return False
    return True

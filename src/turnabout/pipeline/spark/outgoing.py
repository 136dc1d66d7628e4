"""Rows of a DataFrame as messages, checked as a send checks them. No Spark here.

What a valid message is, is said by `Outgoing` and `limits` alone: a row is one if they take it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import pyarrow as pa

from turnabout.pipeline.verbs import StagedMessage
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
    """The cells of a row as they came, in the order in which `Outgoing` takes most of them."""

    value: Any
    content_type: Any
    channel: Any
    priority: Any
    delay_seconds: Any
    headers: Any
    ttl_seconds: Any
    dedup_key: Any
    queue: Any


class Invalid(NamedTuple):
    """A row that cannot be a message. `at` counts from 1 in its partition."""

    at: int
    row: Row
    reason: str


def staged(
    batch: Any,
    stored: Callable[[Any], str],
    max_bytes: int = limits.PAYLOAD_BYTES_MAX,
    first: int = 1,
) -> Iterator[StagedMessage | Invalid]:
    """The rows as messages with their queues, or why they are none, in their order.

    `stored` gives the queue's name in the database, from a row's (None: it has none), or raises
    UsageError; it is asked once for each name.
    """
    queues: dict[Any, str | UsageError] = {}
    make = StagedMessage
    for at, row in enumerate(rows(batch), first):
        value, kind, channel, priority, delay, headers, ttl, key, queue = row
        try:
            if queue not in queues:
                queues[queue] = _outcome(stored, queue)
            name = queues[queue]
            if not isinstance(name, str):
                raise name
            if value.__class__ is not bytes or len(value) > max_bytes:
                value = _payload(value, max_bytes)
            message = Outgoing(
                value,
                kind,
                channel,
                priority,
                None if delay is None else limits.delay_ms(delay),
                None,
                None if headers is None else _headers(headers),
                None if ttl is None else limits.ttl_ms(ttl),
                key,
            )
        except UsageError as error:
            yield Invalid(at, row, str(error))
        else:
            yield make(name, message)


def rows(batch: Any) -> Iterator[Row]:
    """The cells that messages are made of; what a send takes for granted stands for nulls."""
    names = [name.lower() for name in batch.schema.names]
    batch = batch.rename_columns(names)

    def column(name: str, instead: Any = None) -> Sequence[Any]:
        if name not in names:
            return [instead] * batch.num_rows
        cells = _cells(batch.column(name))
        return cells if instead is None else [instead if c is None else c for c in cells]

    value = batch.column("value")
    is_text = _arrow.types.is_string(value.type) or _arrow.types.is_large_string(value.type)
    return map(
        Row._make,
        zip(
            _bytes_of(value) if is_text else _cells(value),
            column("content_type", TEXT if is_text else BYTES),
            column("channel", ""),
            column("priority", 0),
            column("delay_seconds"),
            column("headers"),
            column("ttl_seconds"),
            column("dedup_key"),
            column("queue"),
            strict=True,
        ),
    )


def dead_letter(invalid: Invalid, queue: str, target: str, max_bytes: int) -> StagedMessage:
    """The message for an invalid row in `target`, the queue's dead-letter queue: its payload,
    channel, content type and headers, as far as they are valid, and the reason.
    """
    row = invalid.row
    told = {INVALID_REASON: _plain(invalid.reason), INVALID_QUEUE: queue}
    payload = _any_bytes(row.value)
    if len(payload) > max_bytes:
        told[INVALID_BYTES] = str(len(payload))
        payload = payload[:max_bytes]
    try:
        # Both together must fit; if they do not, the reason matters more.
        headers = limits.headers(_headers(row.headers or {}) | told)
    except UsageError:
        headers = told
    kind = row.content_type if _is_valid(limits.content_type, row.content_type) else BYTES
    channel = row.channel if _is_valid(limits.channel_name, row.channel) else ""
    return StagedMessage(target, Outgoing(payload, kind, channel, headers=headers))


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


def _payload(value: object, max_bytes: int) -> bytes:
    if value is None:
        raise UsageError("the value is null: a message needs a payload, even if an empty one")
    if isinstance(value, str):
        raise UsageError("the value is not UTF-8: leave it as binary, or fix it")
    return limits.payload(value, max_bytes)


def _headers(given: Any) -> dict[str, str]:
    """Read headers from a map, which Arrow gives as pairs, or from JSON text."""
    if isinstance(given, str):
        limits.utf8(given, "headers")
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"the headers are not JSON: {error}") from None
        if not isinstance(given, dict):
            raise UsageError("the headers are JSON, but not an object of names and texts")
    return limits.headers(dict(cast("dict[str, str]", given)))


def _outcome(stored: Callable[[Any], str], queue: Any) -> str | UsageError:
    try:
        return stored(queue)
    except UsageError as error:
        return error


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

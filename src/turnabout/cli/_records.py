"""From a stream of text, JSON lines or CSV to messages, one at a time: memory stays constant.

A record knows the line it began on. Whatever is wrong with a line is a `BadLine` with its number,
raised before anything after it is read.
"""

from __future__ import annotations

import csv
import io
import os
import select
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal, cast

from turnabout.cli import _show
from turnabout.words import limits
from turnabout.words.entities import Outgoing
from turnabout.words.errors import UsageError
from turnabout.words.payload import JSON, TEXT, decode_json, encode
from turnabout.words.prepare import outgoing

Format = Literal["text", "jsonl", "csv", "tsv"]
ENDINGS: dict[str, Format] = {
    ".txt": "text",
    ".log": "text",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
}
LINE_BYTES_MAX = limits.PAYLOAD_BYTES_MAX + 4096
CHUNK_BYTES = 64 * 1024
BOM = b"\xef\xbb\xbf"


class BadLine(Exception):
    """A line that cannot be sent."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


@dataclass(frozen=True, slots=True)
class Record:
    """A message and the line it began on."""

    line: int
    message: Outgoing


@dataclass(frozen=True, slots=True)
class Shape:
    """How lines become messages: the options of `send`."""

    channel: str = ""
    channel_from: str | None = None
    priority: int = 0
    delay_seconds: float | None = None
    headers: dict[str, str] | None = None
    ttl_seconds: float | None = None
    dedup: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Arguments of `outgoing` that say how; `dedup_key` among them for a single message."""
    dedup_key_from: str | None = None
    kind: Literal["auto", "json", "text"] = "auto"

    def from_text(self, text: bytes) -> Outgoing:
        """A message of one text: JSON if it must be, or if it is an object or a list."""
        if self.kind == "json":
            return self._made(text, JSON, decode_json(text))
        if self.kind == "auto" and text.lstrip()[:1] in (b"{", b"["):
            try:
                return self._made(text, JSON, decode_json(text))
            except UsageError:
                if self.channel_from is not None or self.dedup_key_from is not None:
                    raise
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise UsageError("the text is not UTF-8") from error
        return self._made(text, TEXT, None)

    def from_json(self, text: bytes) -> Outgoing:
        """A message of one JSON text, kept byte by byte."""
        return self._made(text, JSON, decode_json(text))

    def from_row(self, row: dict[str, str]) -> Outgoing:
        """A message of one row: a JSON object of its cells, all text."""
        data, kind = encode(row)
        return self._made(data, kind, row)

    def _made(self, payload: bytes, content_type: str, value: object) -> Outgoing:
        channel = self.channel
        if self.channel_from is not None:
            channel = _text_in(value, self.channel_from, "channel")
        dedup = dict(self.dedup)
        if self.dedup_key_from is not None:
            dedup["dedup_key"] = _text_in(value, self.dedup_key_from, "dedup key")
        return outgoing(
            payload,
            channel=channel,
            priority=self.priority,
            delay_seconds=self.delay_seconds,
            headers=self.headers,
            content_type=content_type,
            ttl_seconds=self.ttl_seconds,
            **dedup,
        )


def _text_in(value: object, name: str, what: str) -> str:
    """The text that a field holds: one of just that name first, then a path with dots."""
    found: object = value
    for part in [name] if isinstance(value, dict) and name in value else name.split("."):
        if not isinstance(found, dict) or part not in found:
            raise UsageError(f"there is no field {name!r} to take the {what} from")
        found = cast("dict[str, object]", found)[part]
    if isinstance(found, str):
        return found
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    raise UsageError(
        f"the field {name!r} is {limits.shown(found)}: a {what} is text or a whole number"
    )


class Lines:
    """The lines of a stream, each with its number. Calls `on_idle` before it waits for more."""

    def __init__(self, stream: BinaryIO, on_idle: Callable[[], None]) -> None:
        self._stream = stream
        self._on_idle = on_idle
        self._pipe = _pipe_of(stream)
        self.bytes_read = 0
        self.number = 0
        """Of the line handed out last."""

    def __iter__(self) -> Iterator[bytes]:
        """Each line with its line feed, if it has one."""
        rest = b""
        while chunk := self._read():
            if not self.bytes_read:
                chunk = chunk.removeprefix(BOM)
            self.bytes_read += len(chunk)
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield self._checked(line) + b"\n"
            if len(rest) > LINE_BYTES_MAX:
                self._checked(rest)
        if rest:
            yield self._checked(rest)

    def _checked(self, line: bytes) -> bytes:
        self.number += 1
        if len(line) > LINE_BYTES_MAX:
            raise BadLine(
                self.number,
                f"the line is longer than {limits.PAYLOAD_BYTES_MAX:,} bytes, the limit of a "
                "payload: store it elsewhere and send its address",
            )
        return line

    def _read(self) -> bytes:
        if self._pipe is None:
            return self._stream.read(CHUNK_BYTES)
        # A pipe that pauses: what came so far is sent before we wait, so that
        # `tail -f log | turnabout send` does not sit on half a batch.
        if not select.select([self._pipe], [], [], 0.05)[0]:
            self._on_idle()
        return os.read(self._pipe, CHUNK_BYTES)


def _pipe_of(stream: BinaryIO) -> int | None:
    """The file descriptor of a stream whose data may pause; None for files and for tests."""
    try:
        number = stream.fileno()
        return None if stat.S_ISREG(os.fstat(number).st_mode) else number
    except (OSError, ValueError, io.UnsupportedOperation):
        return None


class Records:
    """The messages of a stream, from a line on. Blank lines are counted and passed over."""

    def __init__(self, lines: Lines, kind: Format, shape: Shape, *, from_line: int = 1) -> None:
        self._lines = lines
        self._kind: Format = kind
        self._shape = shape
        self._from_line = from_line
        self.blank = 0
        self.next_line = from_line
        """The line after the record handed out last."""

    def __iter__(self) -> Iterator[Record]:
        if self._kind in ("csv", "tsv"):
            yield from self._rows()
            return
        make = self._shape.from_json if self._kind == "jsonl" else self._shape.from_text
        for raw in self._lines:
            number = self._lines.number
            if number < self._from_line:
                continue
            line = raw.removesuffix(b"\n").removesuffix(b"\r")
            if not line.strip():
                self.blank += 1
                continue
            record = Record(number, _made(number, make, line))
            self.next_line = number + 1
            yield record

    def _rows(self) -> Iterator[Record]:
        """Rows of CSV; a quoted cell may hold line feeds."""
        text = _Text(self._lines)
        reader = csv.reader(text, delimiter="\t" if self._kind == "tsv" else ",", strict=True)
        heads = _next_row(reader, 1)
        if heads is None:
            return
        _check_heads(heads)
        while True:
            number = self._lines.number + 1
            text.record_began()
            row = _next_row(reader, number)
            if row is None:
                return
            if number < self._from_line:
                continue
            if not row:
                self.blank += 1
                continue
            if len(row) != len(heads):
                cells = _show.plural(len(row), "cell")
                raise BadLine(number, f"the row has {cells}, the head has {len(heads)}")
            message = _made(number, self._shape.from_row, dict(zip(heads, row, strict=True)))
            self.next_line = self._lines.number + 1
            yield Record(number, message)


class _Text:
    """Lines as text for the csv module. A record may not grow without end: an open quote would."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._iterator = iter(lines)
        self._size = 0
        self._began = 1

    def record_began(self) -> None:
        self._size = 0
        self._began = self._lines.number + 1

    def __iter__(self) -> _Text:
        return self

    def __next__(self) -> str:
        line = next(self._iterator)
        self._size += len(line)
        if self._size > LINE_BYTES_MAX:
            raise BadLine(
                self._began,
                f"the row is longer than {limits.PAYLOAD_BYTES_MAX:,} bytes: "
                "is a quotation mark left open?",
            )
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            raise BadLine(self._lines.number, "the line is not UTF-8") from error


def _next_row(reader: Any, number: int) -> list[str] | None:
    csv.field_size_limit(LINE_BYTES_MAX)
    try:
        return next(reader, None)
    except csv.Error as error:
        raise BadLine(number, f"the row is not CSV: {error}") from error


def _check_heads(heads: list[str]) -> None:
    if len(set(heads)) != len(heads) or "" in heads:
        raise BadLine(1, "the head of the table must name every column, each name once")


def _made(number: int, make: Callable[[Any], Outgoing], value: object) -> Outgoing:
    try:
        return make(value)
    except UsageError as error:
        raise BadLine(number, str(error)) from error

"""Messages from a stream of text or JSON lines, one at a time: memory stays constant.

Whatever is wrong with a line is a `BadLine` with its number, raised before anything after it is
read.
"""

from __future__ import annotations

import io
import os
import select
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal, cast

from turnabout.words import limits
from turnabout.words.entities import Outgoing
from turnabout.words.errors import UsageError
from turnabout.words.payload import JSON, TEXT, decode_json
from turnabout.words.prepare import outgoing

Format = Literal["text", "jsonl"]
LINE_BYTES_MAX = limits.PAYLOAD_BYTES_MAX + 4096
CHUNK_BYTES = 64 * 1024
BOM = b"\xef\xbb\xbf"
IDLE_MS, SIGNAL_MS = 50, 500


class BadLine(Exception):
    """A line that cannot be sent."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line, self.text = line, text


@dataclass(frozen=True, slots=True)
class Record:
    """A message and the line it was on."""

    line: int
    message: Outgoing


@dataclass(frozen=True, slots=True)
class Shape:
    """Options of `send` for making messages of lines."""

    channel_from: str | None = None
    dedup_key_from: str | None = None
    kind: Literal["auto", "json", "text"] = "auto"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Arguments of `outgoing` that all messages have."""

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

    def _made(self, payload: bytes, content_type: str, value: object) -> Outgoing:
        options = dict(self.options)
        if self.channel_from is not None:
            options["channel"] = _text_in(value, self.channel_from, "channel")
        if self.dedup_key_from is not None:
            options["dedup_key"] = _text_in(value, self.dedup_key_from, "dedup key")
        return outgoing(payload, content_type=content_type, **options)


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
        if self._pipe is not None:
            self._poll = select.poll()  # not `select`, which knows the first 1,024 files only
            self._poll.register(self._pipe, select.POLLIN)
        self.bytes_read = 0
        self.number = 0
        """Number of the last line handed out."""
        self.blank = 0
        self.next = 1
        """The line after the last one that became a message."""

    def __iter__(self) -> Iterator[bytes]:
        """Each line, without its line feed."""
        rest = b""
        while chunk := self._read():
            if not self.bytes_read:
                chunk = chunk.removeprefix(BOM)
            self.bytes_read += len(chunk)
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield self._checked(line)
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
        if not self._poll.poll(IDLE_MS):
            self._on_idle()
            # Not by a read that blocks: a signal right before it would only be noted.
            while not self._poll.poll(SIGNAL_MS):
                pass
        return os.read(self._pipe, CHUNK_BYTES)


def _pipe_of(stream: BinaryIO) -> int | None:
    """The file descriptor of a stream whose data may pause; None for files, tests and Windows."""
    try:
        number = stream.fileno()
        return None if os.name == "nt" or stat.S_ISREG(os.fstat(number).st_mode) else number
    except (OSError, ValueError, io.UnsupportedOperation):
        return None


def records(lines: Lines, kind: Format, shape: Shape) -> Iterator[Record]:
    """The messages of a stream. Blank lines are counted and skipped."""
    make = shape.from_json if kind == "jsonl" else shape.from_text
    for raw in lines:
        line = raw.removesuffix(b"\r")
        if not line.strip():
            lines.blank += 1
            continue
        try:
            record = Record(lines.number, make(line))
        except UsageError as error:
            raise BadLine(lines.number, str(error)) from error
        lines.next = lines.number + 1
        yield record

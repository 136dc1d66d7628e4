"""The server's log: lines of text or of JSON, through the standard library's logging.

No secrets and no payloads, at any level. So exceptions are shown as their classes and the places
they came through; their texts may quote a client or a database. As a second net, anything that
looks like a token or like a password in a URL is cut out of each line.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, TextIO

from turnabout.words.errors import TurnaboutError

_TOKEN = re.compile(r"(tbt_[a-z2-7]{0,12})[A-Za-z0-9_~+/=-]*")
_PASSWORD = re.compile(
    r"(://[^\s:/@]*:)[^\s@]*@|([a-z_]*(?:password|secret)=)[^\s&'\"]+", re.IGNORECASE
)
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Attributes that every record has; any other came through `extra=`."""


def scrubbed(text: str) -> str:
    """The text without tokens' secrets and passwords."""
    if "tbt_" in text:
        text = _TOKEN.sub(r"\1***", text)
    if ":" in text or "=" in text:
        text = _PASSWORD.sub(lambda m: f"{m[1]}***@" if m[1] else f"{m[2]}***", text)
    return text


def stack(error: BaseException) -> str:
    """An exception without its text: its class, its cause's, and where they came through."""
    lines: list[str] = []
    current: BaseException | None = error
    while current is not None and len(lines) < 100:
        code = f" ({current.code})" if isinstance(current, TurnaboutError) else ""
        lines.append(f"{type(current).__module__}.{type(current).__qualname__}{code}")
        for frame in traceback.extract_tb(current.__traceback__)[-20:]:
            lines.append(f"  {frame.filename}:{frame.lineno} in {frame.name}")  # noqa: PERF401
        current = current.__cause__ or current.__context__
    return "\n".join(lines)


class _Formatter(logging.Formatter):
    """The part that both forms share: exceptions without texts, and the second net."""

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the library's name
        return stack(ei[1]) if ei[1] is not None else ""

    def _text(self, record: logging.LogRecord) -> str:
        return record.getMessage()

    def _error(self, record: logging.LogRecord) -> str | None:
        # Not `record.exc_text`: another handler's formatter may have put the whole story there.
        return self.formatException(record.exc_info) if record.exc_info else None

    def _extra(self, record: logging.LogRecord) -> dict[str, Any]:
        return {name: value for name, value in vars(record).items() if name not in _PLAIN}


class TextFormatter(_Formatter):
    """`2026-01-31T12:00:00.123Z INFO turnabout.server.access POST /v1/… status=200 …`."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as one line; the places of an exception follow below it."""
        parts = [_instant(record.created), record.levelname, record.name, self._text(record)]
        parts += [f"{name}={_word(value)}" for name, value in self._extra(record).items()]
        line = " ".join(parts).replace("\r", "\\r").replace("\n", "\\n")
        error = self._error(record)
        return scrubbed(line if error is None else f"{line}\n{error}")


class JsonFormatter(_Formatter):
    """One JSON object a line: `time`, `level`, `logger`, `message`, extra fields, `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as one line of JSON."""
        document = {
            "time": _instant(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._text(record),
            **self._extra(record),
        }
        error = self._error(record)
        if error is not None:
            document["exception"] = error.splitlines()
        return scrubbed(json.dumps(document, ensure_ascii=False, default=str))


def configure(form: str = "text", level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send all logs of this process to standard error (or `stream`) in that form. For `serve`."""
    formatter: logging.Formatter = JsonFormatter() if form == "json" else TextFormatter()
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for old in tuple(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)


def _instant(seconds: float, now: Callable[[float], time.struct_time] = time.gmtime) -> str:
    whole = int(seconds)
    ms = int((seconds - whole) * 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', now(whole))}.{ms:03}Z"


def _word(value: object) -> str:
    text = f"{value:.4f}" if isinstance(value, float) else str(value)
    return text if text.isprintable() and " " not in text and text else json.dumps(text)

"""SQLite URLs: which file, and how to open it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from turnabout.words.errors import UsageError
from turnabout.words.limits import shown

Synchronous = Literal["full", "normal", "off"]
_SYNCHRONOUS: Mapping[str, Synchronous] = {"full": "full", "normal": "normal", "off": "off"}
BUSY_SECONDS_MAX = 3600.0


@dataclass(frozen=True, slots=True)
class Place:
    """A store's place. `path` None is memory.

    synchronous   full: a commit survives a power cut; normal: the last ones may be lost, the file
                  stays whole; off: for tests
    busy_seconds  how long to wait for another process's write lock
    """

    path: Path | None
    synchronous: Synchronous = "full"
    busy_seconds: float = 30.0


def place(url: str) -> Place:
    """The place that a URL names.

    Raises: UsageError for anything that is not exactly such a URL.
    """
    parts = urlsplit(url)
    if parts.scheme != "sqlite":
        raise UsageError(f"{shown(url)} is not an SQLite URL: those begin with sqlite://")
    if parts.netloc:
        raise UsageError(
            f"{shown(url)} names a host, and SQLite URLs have none: "
            "use sqlite:///relative/path or sqlite:////absolute/path"
        )
    if not url[len(parts.scheme) :].startswith("://"):
        raise UsageError(
            f"{shown(url)} lacks slashes: use sqlite:///relative/path or sqlite:////absolute/path"
        )
    if parts.fragment:
        raise UsageError("an SQLite URL has no '#': write it as %23 if it is in the file's name")
    name = unquote(parts.path.removeprefix("/"))
    if name == ":memory:" or (parts.path and not name) or "\x00" in name:
        raise UsageError(f"{shown(url)} names no file: use sqlite:///path, or sqlite:// for memory")
    synchronous, busy_seconds = _options(parts.query)
    return Place(Path(name).absolute() if name else None, synchronous, busy_seconds)


def _options(query: str) -> tuple[Synchronous, float]:
    synchronous: Synchronous = "full"
    busy_seconds = 30.0
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name == "synchronous":
            if value not in _SYNCHRONOUS:
                raise UsageError(f"synchronous is full, normal or off, not {shown(value)}")
            synchronous = _SYNCHRONOUS[value]
        elif name == "busy_seconds":
            busy_seconds = _seconds(value)
        else:
            raise UsageError(
                f"an SQLite URL has no option {shown(name)}; it has synchronous and busy_seconds"
            )
    return synchronous, busy_seconds


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError as error:
        raise UsageError(f"busy_seconds is a number, not {shown(value)}") from error
    if not 0 <= seconds <= BUSY_SECONDS_MAX:
        raise UsageError(f"busy_seconds is 0 to {BUSY_SECONDS_MAX:,.0f}, not {shown(value)}")
    return seconds

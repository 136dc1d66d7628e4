"""A PostgreSQL URL with Penstock's own options taken out: the rest is libpq's affair."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from penstock.words.errors import UsageError


@dataclass(frozen=True, slots=True)
class Options:
    """What a URL may say beside where the database is.

    prepare          off behind a transaction pooler that forgets prepared statements
    listen           off where LISTEN does not work; receivers poll then
    poll_seconds     the longest a waiting receiver sleeps without asking
    max_connections  of one store, the listening one apart
    busy_seconds     how long a call waits for one of them
    """

    url: str
    conninfo: str
    prepare: bool = True
    listen: bool = True
    poll_seconds: float = 1.0
    max_connections: int = 16
    busy_seconds: float = 30.0


_SWITCH = {"on": True, "off": False}


def parse(url: str) -> Options:
    """Take Penstock's options out of the query of a URL; unknown ones are libpq's."""
    parts = urlsplit(url)
    rest: list[tuple[str, str]] = []
    own: dict[str, object] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name in ("prepare", "listen"):
            if value not in _SWITCH:
                raise UsageError(f"{name} in the URL is on or off, not {value!r}")
            own[name] = _SWITCH[value]
        elif name in ("poll_seconds", "busy_seconds"):
            own[name] = _number(name, value, 0.01, 3600.0)
        elif name == "max_connections":
            own[name] = int(_number(name, value, 1, 1000))
        else:
            rest.append((name, value))
    conninfo = urlunsplit(parts._replace(query=urlencode(rest)))
    return Options(url, conninfo, **own)  # pyright: ignore[reportArgumentType]


def _number(name: str, value: str, least: float, most: float) -> float:
    try:
        number = float(value)
    except ValueError as error:
        raise UsageError(f"{name} in the URL is a number, not {value!r}") from error
    if not least <= number <= most:
        raise UsageError(f"{name} in the URL is {least:g} to {most:g}, not {value}")
    return number

"""A PostgreSQL URL with Turnabout's own options taken out: the rest is libpq's affair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from turnabout.words.errors import UsageError
from turnabout.words.limits import shown
from turnabout.words.urls import check_user, scrubbed


@dataclass(frozen=True, slots=True)
class PostgresOptions:
    """The options in a URL.

    prepare          off behind a transaction pooler that forgets prepared statements
    listen           off where LISTEN does not work; receivers poll then
    poll_seconds     the longest a waiting receiver sleeps without asking
    max_connections  of one store, the listening one apart
    busy_seconds     how long a call waits for one of them
    call_seconds     how long the server may say nothing while it is asked something
    """

    url: str
    conninfo: str
    prepare: bool = True
    listen: bool = True
    poll_seconds: float = 1.0
    max_connections: int = 16
    busy_seconds: float = 30.0
    call_seconds: float = 60.0


NETWORK: Final = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
"""Defaults for libpq: a silent network is noticed, also while the server is to speak first."""


def address(conninfo: str, program: str) -> str:
    """Return libpq's parameters for a connection that operators see under the program's name."""
    keywords = conninfo_to_dict(conninfo).keys() | {
        option.keyword.decode() for option in Conninfo.get_defaults() if option.val is not None
    }
    wanted = {"fallback_application_name": program, **NETWORK}
    more = {name: value for name, value in wanted.items() if name not in keywords}
    return make_conninfo(conninfo, client_encoding="utf8", **more)  # texts are encoded by hand


_SWITCHES = ("prepare", "listen")
_SWITCH = {"on": True, "off": False}


def parse(url: str) -> PostgresOptions:
    """Take Turnabout's options out of the query of a URL; the rest stays as it is, for libpq.

    Raises: UsageError for a value that is wrong, or that libpq cannot read.
    """
    check_user(url)
    # Cut where libpq cuts it, and nowhere else: its host may be empty, or several.
    place, _, query = url.partition("?")
    rest: list[str] = []
    own: dict[str, object] = {}
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        if name in _SWITCHES:
            if value not in _SWITCH:
                raise UsageError(f"{name} in the URL is on or off, not {shown(value)}")
            own[name] = _SWITCH[value]
        elif name in ("poll_seconds", "busy_seconds", "call_seconds"):
            own[name] = _number(name, value, 0.01, 3600.0)
        elif name == "max_connections":
            if not value.isdecimal():
                raise UsageError(f"{name} in the URL is a whole number, not {shown(value)}")
            own[name] = int(_number(name, value, 1, 1000))
        else:
            rest.append(part)
    conninfo = f"{place}?{'&'.join(rest)}" if rest else place
    try:
        conninfo_to_dict(conninfo)
    except psycopg.Error as error:
        reason = scrubbed(str(error).strip(), url)
        raise UsageError(f"PostgreSQL's client cannot read the URL: {reason}") from None
    return PostgresOptions(url, conninfo, **own)  # pyright: ignore[reportArgumentType]


def _number(name: str, value: str, least: float, most: float) -> float:
    try:
        number = float(value)
    except ValueError as error:
        raise UsageError(f"{name} in the URL is a number, not {shown(value)}") from error
    if not least <= number <= most:
        raise UsageError(f"{name} in the URL is {least:g} to {most:g}, not {shown(value)}")
    return number

"""The URL of a server: where it is, the token, and how long to wait for it.

http://host:8080                    a server of this machine or network
https://tbt_…@host/queues           with a token, behind a proxy that serves us below /queues
https://host?timeout_seconds=60     with an option; `Address` has them all

The token comes from the URL, from `connect(token=…)` or from TURNABOUT_TOKEN, and is never shown.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from turnabout.words.errors import UsageError
from turnabout.words.limits import shown
from turnabout.words.urls import TOKEN_PREFIX

TOKEN_VARIABLE = "TURNABOUT_TOKEN"  # noqa: S105 - a name, not a secret
TOKEN_CHARS_MAX = 4_096


@dataclass(frozen=True, slots=True)
class Address:
    """A server's address, and the options in its URL.

    timeout_seconds  how long a call waits for its answer, or for its turn among the connections
    connect_seconds  how long opening a connection may take
    max_connections  how many calls may be under way at once, not counting those that wait
    """

    base: str
    """Scheme, host and path, without a slash at the end."""
    token: str | None = field(default=None, repr=False)
    timeout_seconds: float = 30.0
    connect_seconds: float = 5.0
    max_connections: int = 64

    def __str__(self) -> str:
        """The URL as it may be shown."""
        return self.base


def parse(url: str, token: str | None = None) -> Address:
    """Read the URL. Raises: UsageError, which does not show the token."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:  # whose text may quote a token that stands in a wrong place
        raise UsageError(
            "the URL of the server cannot be read: it reads like http://host:8080"
        ) from None
    if not host or any(letter.isspace() for letter in host):
        raise UsageError("the URL names no server: it reads like http://host:8080")
    if host.startswith(TOKEN_PREFIX):
        raise UsageError("a token in the URL stands before an @ and the host: http://tbt_…@host")
    if parts.fragment:
        raise UsageError("the URL of a server has no part after a #")
    base = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
    return Address(base, _token(parts, token), **_options(parts.query))


def _token(parts: SplitResult, argument: str | None) -> str | None:
    """The token: a user name without a password, or, as with HTTP Basic, the password."""
    in_url = unquote(parts.password or parts.username or "") or None
    if argument is not None and in_url is not None:
        raise UsageError("there is a token in the URL and another one given apart: give only one")
    token = argument or in_url or os.environ.get(TOKEN_VARIABLE) or None
    if token is None:
        return None
    if not isinstance(token, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"a token is a str, not {type(token).__name__}")
    is_plain = token.isascii() and token.isprintable() and " " not in token
    if not is_plain or len(token) > TOKEN_CHARS_MAX:
        raise UsageError("not a token: `turnabout token create` prints one, which begins with tbt_")
    return token


def _options(query: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        if name in ("timeout_seconds", "connect_seconds"):
            found[name] = _number(name, value, 0.01, 3600.0)
        elif name == "max_connections":
            if not value.isdecimal():
                raise UsageError(f"{name} in the URL is a whole number, not {shown(value)}")
            found[name] = int(_number(name, value, 1, 10_000))
        else:
            raise UsageError(
                f"the URL of a server has no option {shown(unquote(name))}: there are "
                "timeout_seconds, connect_seconds and max_connections"
            )
    return found


def _number(name: str, text: str, least: float, most: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not least <= number <= most:
        raise UsageError(f"{name} in the URL is {least:g} to {most:,g}, not {shown(text)}")
    return number

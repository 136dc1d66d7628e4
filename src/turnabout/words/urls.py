"""URLs of databases and servers without their secrets.

A password with a `/`, `?`, `#` or `@` that was not percent-encoded makes parsers take a part of it
for the host or the path. So a URL is cut at its last `@` here, wherever that stands: what is before
it may be secret.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from turnabout.words.errors import UsageError

TOKEN_PREFIX = "tbt_"  # noqa: S105 - what every token begins with, so that scanners can find one

_SERVERS = ("http", "https")
_SECRETS = ("password", "secret", "scram_client_key", "scram_server_key")
"""Suffixes of the names of secret options, libpq's among them."""


def without_secrets(url: str, hidden: str = "") -> str:
    """The URL, fit to be shown: with `hidden` in the place of each secret, or without a trace of
    them. A user's name is shown, but for a server: there it is the token.
    """
    scheme, user, password, place, options = _parts(url)
    if scheme in _SERVERS and user:
        user, password = hidden, None
    if password is not None and hidden:
        user = f"{user}:{hidden}"
    shown = [_shown(option, hidden) for option in options]
    query = "&".join(filter(None, shown))
    place = f"{user}@{place}" if user else place
    return (f"{scheme}://{place}" if "://" in url else url) + (f"?{query}" if query else "")


def secrets_of(url: str) -> set[str]:
    """The secrets in a URL, as they stand there and decoded."""
    scheme, user, password, _, options = _parts(url)
    found = {option.partition("=")[2] for option in options if _is_secret(option)}
    found.add(password or "")
    if scheme in _SERVERS:
        found.add(user)
    return {form for secret in found for form in (secret, unquote(secret)) if form}


def scrubbed(text: str, url: str, hidden: str = "***") -> str:
    """A text that others wrote, without the secrets of the URL, should they have quoted one."""
    for secret in sorted(secrets_of(url), key=len, reverse=True):
        text = text.replace(secret, hidden)
    return text


def check_user(url: str) -> None:
    """Refuse a URL whose user or password would be taken for something else. Raises: UsageError."""
    _, user, password, _, _ = _parts(url)
    for sign in "/?#@":
        if password is not None and sign in user + password:
            raise UsageError(
                f"the URL's user or password holds a {sign!r}, which would end it: "
                f"write %{ord(sign):02X} instead"
            )


def _parts(url: str) -> tuple[str, str, str | None, str, list[str]]:
    """Scheme, user, password (None: there is none), what is behind the `@`, options."""
    scheme, _, rest = url.partition("://")
    login, at, place = rest.rpartition("@") if scheme != "sqlite" else ("", "", rest)
    while at and "?" in login and "=" in re.split("[?&]", login)[-1]:  # it is in an option's value
        login, at, more = login.rpartition("@")
        place = f"{more}@{place}"
    user, colon, password = login.partition(":")
    place, _, query = place.partition("?")
    return scheme, user, password if colon else None, place, query.split("&") if query else []


def _shown(option: str, hidden: str) -> str:
    if not _is_secret(option):
        return option
    return f"{option.partition('=')[0]}={hidden}" if hidden else ""


def _is_secret(option: str) -> bool:
    return unquote(option.partition("=")[0]).lower().endswith(_SECRETS)

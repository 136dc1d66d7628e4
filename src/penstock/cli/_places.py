"""URLs as the command line needs them: which file, which kind, and never a password."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

DEFAULT_URL = "sqlite:///penstock.db"

_SECRET = re.compile(r"(?i)\b((?:ssl)?password=)([^&\s]+)")


def is_sqlite(url: str) -> bool:
    return urlsplit(url).scheme == "sqlite"


def is_postgres(url: str) -> bool:
    return urlsplit(url).scheme in ("postgresql", "postgres")


def is_server(url: str) -> bool:
    return urlsplit(url).scheme in ("http", "https")


def sqlite_path(url: str) -> Path | None:
    """The file of an SQLite URL; None for one in memory and for other databases."""
    if not is_sqlite(url):
        return None
    name = unquote(urlsplit(url).path.removeprefix("/"))
    return None if name in ("", ":memory:") else Path(name)


def without_password(url: str) -> str:
    """The URL as it may be shown."""
    parts = urlsplit(url)
    netloc = parts.netloc
    user, at, host = netloc.rpartition("@")
    if at and is_server(url):
        netloc = f"***@{host}"  # the user's name is the token
    elif at and ":" in user:
        netloc = f"{user.partition(':')[0]}:***@{host}"
    # Not urlunsplit: it makes sqlite:/app.db of sqlite:///app.db.
    query = _SECRET.sub(r"\1***", parts.query)
    return f"{parts.scheme}://{netloc}{parts.path}{'?' if query else ''}{query}"


def scrub(text: str, url: str) -> str:
    """A text without the URL's password, should a library have quoted it."""
    for secret in _secrets(url):
        text = text.replace(secret, "***")
    return text


def _secrets(url: str) -> set[str]:
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    raw = {user.partition(":")[2]} if at else set[str]()
    if is_server(url):
        raw |= {os.environ.get("PENSTOCK_TOKEN", ""), user if ":" not in user else ""}
    raw |= {value for name, value in parse_qsl(parts.query) if "password" in name.lower()}
    return {form for secret in raw for form in (secret, unquote(secret)) if form}

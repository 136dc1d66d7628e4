"""URLs as the command line needs them: which file, which kind, and never a password."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from turnabout.words.urls import scrubbed, without_secrets

DEFAULT_URL = "sqlite:///turnabout.db"
HIDDEN = "***"


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


def is_there(path: Path) -> bool:
    """Whether there is such a file. Raises OSError where that can't be seen, which `exists` calls
    a no since Python 3.14.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def without_password(url: str) -> str:
    """The URL as it may be shown."""
    return without_secrets(url, HIDDEN)


def scrub(text: str, url: str) -> str:
    """A text without the URL's secrets, should a library have quoted one."""
    token = os.environ.get("TURNABOUT_TOKEN")
    if token and is_server(url):
        text = text.replace(token, HIDDEN)
    return scrubbed(text, url, HIDDEN)

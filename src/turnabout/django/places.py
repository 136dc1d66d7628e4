"""The database of a backend's queues: its URL from Django's settings, and connections to it."""
# pyright: basic
# (Django has no types)

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from django.core.exceptions import ImproperlyConfigured

import turnabout

_OF_DJANGO = {"assume_role", "isolation_level", "pool", "server_side_binding", "cursor_factory"}
"""Options of Django's for PostgreSQL that libpq does not know."""

_opened: dict[str, turnabout.Turnabout] = {}
_lock = threading.Lock()


def url_of(connection: Any) -> str:
    """Turnabout's URL for the database of a Django connection. Connects to nothing.

    Raises: ImproperlyConfigured for a database that Turnabout does not live in.
    """
    settings = connection.settings_dict
    if connection.vendor == "postgresql":
        return _postgres_url(settings)
    if connection.vendor != "sqlite":
        raise ImproperlyConfigured(
            f"Turnabout lives in SQLite or PostgreSQL, and the database {connection.alias!r} is "
            f"{connection.vendor}: name another in the backend's OPTIONS, as `database` or `url`"
        )
    if is_in_memory(connection):
        raise ImproperlyConfigured(
            f"the database {connection.alias!r} is in memory, where Turnabout cannot join it: "
            'give it a file, in tests by "TEST": {"NAME": "test.sqlite3"}, or use Django\'s '
            "immediate or dummy backend"
        )
    name = str(settings["NAME"])
    if name.startswith("file:"):
        raise ImproperlyConfigured(
            f"the database {connection.alias!r} is named by a URI: name its file, or give the "
            "backend's OPTIONS a `url`"
        )
    return f"sqlite:///{quote(name)}"


def is_in_memory(connection: Any) -> bool:
    """Whether it is SQLite without a file, as Django's test databases are."""
    return connection.vendor == "sqlite" and connection.is_in_memory_db()


def _postgres_url(settings: Mapping[str, Any]) -> str:
    """Make a URL with all but the user in the query, where libpq takes socket folders, too."""
    options: dict[str, Any] = dict(settings["OPTIONS"])
    role = options.get("assume_role")
    parameters = {name: value for name, value in options.items() if name not in _OF_DJANGO}
    if role:
        parameters["options"] = f"{parameters.get('options', '')} -c role={role}".strip()
    parameters |= {
        name: settings[name.upper()] for name in ("host", "port") if settings.get(name.upper())
    }
    user, password = (quote(str(settings[name] or ""), safe="") for name in ("USER", "PASSWORD"))
    who = f"{user}:{password}@" if password else f"{user}@" if user else ""
    query = f"?{urlencode(parameters, quote_via=quote)}" if parameters else ""
    return f"postgresql://{who}/{quote(str(settings['NAME'] or ''), safe='')}{query}"


def opened(url: str) -> turnabout.Turnabout:
    """The process's connection: backends are many, one for each thread and context."""
    with _lock:
        if url not in _opened:
            _opened[url] = turnabout.connect(url)
        return _opened[url]


def close_all() -> None:
    """Close what this process has opened: a test database can be dropped then."""
    with _lock:
        while _opened:
            _opened.popitem()[1].close()
